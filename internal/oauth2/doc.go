// Package oauth2 fetches access tokens by the client credentials grant of OAuth 2 (RFC 6749 section
// 4.4) and caches them.
//
// A [Cache] holds one token per [Grant]. A token that nears its expiry is renewed in the background
// while it is still valid, so that most runs never wait for a token server. Concurrent callers
// share one request per grant. After a failure the cache waits with exponential backoff before the
// next request, and callers in between get the failure at once. Tokens and secrets are kept in
// memory only, and no error contains them.
package oauth2
