// Package oauth2 gets tokens by the client credentials grant of OAuth 2 (RFC 6749 section 4.4), and keeps them until they are old.
//
// A [Cache] holds one token for each [Grant]. Whoever needs one gets the token that is there. One that nears its end is renewed in the
// background while it is still good, so most runs never wait for a token server. However many ask at once, one request is under way for
// a grant at a time. After a failure the server is left alone for a while, longer after each further one; whoever asks in between gets
// the failure at once. Tokens and secrets are kept in memory alone, and no error shows them.
package oauth2
