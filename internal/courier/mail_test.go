package courier_test

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/courier"
	"rubato/internal/notices"
	"rubato/internal/oauth2"
)

// mailServer is an SMTP server with STARTTLS. Like a strict relay it refuses an EHLO without a
// domain name.
type mailServer struct {
	listener net.Listener
	tls      *tls.Config
	roots    *x509.CertPool
	bare     bool   // without STARTTLS
	refused  string // recipient that it refuses
	auth     string // mechanisms of AUTH that it offers; empty: PLAIN
	stale    string // access token that it refuses

	mu       sync.Mutex
	hello    string // name of the last EHLO
	from     string
	secured  bool
	signedIn string
	to       []string
	text     string
}

func serveMail(t *testing.T, bare bool) *mailServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // For its certificate for 127.0.0.1.
	t.Cleanup(certified.Close)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mailServer{listener: l, tls: &tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}, roots: x509.NewCertPool(), bare: bare}
	m.roots.AddCert(certified.Certificate())
	var sessions sync.WaitGroup
	sessions.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			sessions.Go(func() { m.talk(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); sessions.Wait() })
	return m
}

// talk serves one session.
func (m *mailServer) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	m.note(func() { m.secured = false })
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	say("220 mail.test ready")
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToUpper(verb) {
		case "EHLO", "HELO":
			m.note(func() { m.hello = rest })
			switch {
			case !strings.Contains(rest, "."):
				say("550 EHLO needs the name of a host with its domain")
			case m.isSecured():
				say("250-mail.test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH " + cmp.Or(m.auth, "PLAIN"))
			case m.bare:
				say("250 mail.test")
			default:
				say("250-mail.test\r\n250 STARTTLS")
			}
		case "STARTTLS":
			say("220 go on")
			secure := tls.Server(conn, m.tls)
			if secure.Handshake() != nil {
				return
			}
			conn, in = secure, bufio.NewReader(secure)
			m.note(func() { m.secured = true })
		case "AUTH":
			if !m.takeAuth(rest, say, in) {
				say("535 no")
				continue
			}
			say("235 welcome")
		case "MAIL":
			m.note(func() { m.from = rest })
			say("250 fine")
		case "RCPT":
			if m.refused != "" && strings.Contains(rest, m.refused) {
				say("550 no such mailbox")
				continue
			}
			m.note(func() { m.to = append(m.to, rest) })
			say("250 fine")
		case "DATA":
			say("354 go on")
			var text strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				text.WriteString(line)
			}
			m.note(func() { m.text = text.String() })
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 fine")
		}
	}
}

// takeAuth records a sign-in by PLAIN, LOGIN or XOAUTH2 and reports whether it is accepted.
func (m *mailServer) takeAuth(rest string, say func(string), in *bufio.Reader) bool {
	mechanism, first, _ := strings.Cut(rest, " ")
	decoded := func(text string) string {
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		return string(raw)
	}
	said := mechanism + " " + decoded(first)
	if mechanism == "LOGIN" {
		for _, ask := range []string{"Username:", "Password:"} {
			say("334 " + base64.StdEncoding.EncodeToString([]byte(ask)))
			answer, _ := in.ReadString('\n')
			said += decoded(answer) + ";"
		}
	}
	m.note(func() { m.signedIn = said })
	if mechanism == "XOAUTH2" && m.stale != "" && strings.Contains(said, m.stale) {
		say("334 " + base64.StdEncoding.EncodeToString([]byte(`{"status":"401"}`)))
		_, _ = in.ReadString('\n')
		return false
	}
	return true
}

func (m *mailServer) note(act func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	act()
}

func (m *mailServer) isSecured() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secured
}

func TestMailGoesOutByStartTLS(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := serveMail(t, false)
	b.mail = courier.Mail{
		Address: m.listener.Addr().String(), Hello: "rubato.example.com", From: "Rubato Schüler <rubato@example.com>", Username: "u", Password: "p",
		Security: courier.StartTLS, Session: &tls.Config{RootCAs: m.roots, MinVersion: tls.VersionTLS12},
	}
	b.happen(t, notices.Channel{Kind: notices.Email, To: []string{"a@example.com", "b@example.com"}})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	m.mu.Lock()
	defer m.mu.Unlock()
	require.True(t, m.secured)
	require.Equal(t, "rubato.example.com", m.hello)
	require.Equal(t, "FROM:<rubato@example.com> BODY=8BITMIME", m.from)
	require.Equal(t, "PLAIN \x00u\x00p", m.signedIn)
	require.Equal(t, []string{"TO:<a@example.com>", "TO:<b@example.com>"}, m.to)
	message, err := mail.ReadMessage(strings.NewReader(m.text))
	require.NoError(t, err)
	from, err := message.Header.AddressList("From")
	require.NoError(t, err)
	require.Equal(t, []*mail.Address{{Name: "Rubato Schüler", Address: "rubato@example.com"}}, from)
	require.Equal(t, `"Shop <!channel> & co" fails: 3 failures in a row`, message.Header.Get("Subject"))
	require.Equal(t, "auto-generated", message.Header.Get("Auto-Submitted"))
	require.Regexp(t, `^<epi_.*@example\.com>$`, message.Header.Get("References"))
	require.Regexp(t, `^<ntc_.*@example\.com>$`, message.Header.Get("Message-ID"))
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	require.NoError(t, err)
	require.Contains(t, string(body), "Outcome: failed http_status (503)")
}

// TestNoMailGoesOutInTheClearUnasked: without TLS, or with an untrusted certificate, no mail is
// sent unless the operator permits it.
func TestNoMailGoesOutInTheClearUnasked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bare bool
		want string
	}{
		"NoTLS":   {true, "the mail server offers no STARTTLS; set RUBATO_SMTP_SECURITY to tls, or to none where the way to it is safe"},
		"Unknown": {false, "the connection to the mail server broke at STARTTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			m := serveMail(t, tc.bare)
			b.mail = courier.Mail{Address: m.listener.Addr().String(), From: "rubato@example.com", Username: "u", Password: "p", Security: courier.StartTLS}
			r := notices.Rule{Name: "x", TenantID: b.by.TenantID, Spec: notices.Spec{Channel: notices.Channel{Kind: notices.Email, To: []string{"a@example.com"}}}}
			result, err := b.channels().Test(t.Context(), b.by, r)
			require.NoError(t, err)
			require.Equal(t, tc.want, result.Error)
			m.mu.Lock()
			defer m.mu.Unlock()
			require.Empty(t, m.text+m.signedIn)
		})
	}
}

// testMail sends the test notice of a rule with a mail recipient.
func (b *bundle) testMail(t *testing.T) notices.Result {
	t.Helper()
	r := notices.Rule{Name: "x", TenantID: b.by.TenantID, Spec: notices.Spec{Channel: notices.Channel{Kind: notices.Email, To: []string{"a@example.com"}}}}
	result, err := b.channels().Test(t.Context(), b.by, r)
	require.NoError(t, err)
	return result
}

// TestMailGoesThroughAStrictRelay: the default EHLO name has a domain, because strict relays refuse
// names such as localhost.
func TestMailGoesThroughAStrictRelay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := serveMail(t, true)
	b.mail = courier.Mail{Address: m.listener.Addr().String(), From: "rubato@example.com", Security: courier.Clear}
	require.Empty(t, b.testMail(t).Error)

	b.mail.Hello = "localhost"
	require.Equal(t, "the mail server answered EHLO with 550", b.testMail(t).Error)
}

// TestMailSignsInAsTheServerOffers has servers with one mechanism each. A password is sent only by
// an offered mechanism.
func TestMailSignsInAsTheServerOffers(t *testing.T) {
	t.Parallel()
	for auth, want := range map[string]struct{ signedIn, failure string }{
		"PLAIN LOGIN": {signedIn: "PLAIN \x00u\x00p"},
		"LOGIN":       {signedIn: "LOGIN u;p;"},
		"XOAUTH2":     {failure: "the mail server offers neither AUTH PLAIN nor AUTH LOGIN"},
	} {
		t.Run(auth, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			m := serveMail(t, false)
			m.auth = auth
			b.mail = courier.Mail{
				Address: m.listener.Addr().String(), From: "rubato@example.com", Username: "u", Password: "p", Security: courier.StartTLS,
				Session: &tls.Config{RootCAs: m.roots, MinVersion: tls.VersionTLS12},
			}
			require.Equal(t, want.failure, b.testMail(t).Error)
			m.mu.Lock()
			defer m.mu.Unlock()
			require.Equal(t, want.signedIn, m.signedIn)
		})
	}
}

// TestMailSignsInByAccessToken has a server that refuses the first token, as after a change of
// permissions. The courier then fetches a new one and keeps it until it is refused.
func TestMailSignsInByAccessToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := serveMail(t, false)
	m.auth, m.stale = "PLAIN XOAUTH2", "token-1"
	var asked atomic.Int64
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		if id != "client" || secret != "s3cret" || r.FormValue("scope") != "https://mail.example/.default" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, asked.Add(1))
	}))
	t.Cleanup(issuer.Close)
	b.mail = courier.Mail{
		Address: m.listener.Addr().String(), From: "rubato@example.com", Username: "box@example.com", Security: courier.StartTLS,
		Session: &tls.Config{RootCAs: m.roots, MinVersion: tls.VersionTLS12},
		Grant: oauth2.Grant{
			TokenURL: issuer.URL, ClientID: "client", ClientSecret: "s3cret", Scopes: []string{"https://mail.example/.default"},
		},
	}

	require.Equal(t, "the mail server answered AUTH with 535", b.testMail(t).Error)
	require.Empty(t, b.testMail(t).Error)
	require.Empty(t, b.testMail(t).Error)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Equal(t, "XOAUTH2 user=box@example.com\x01auth=Bearer token-2\x01\x01", m.signedIn)
	require.EqualValues(t, 2, asked.Load(), "a token is kept until it is refused")
	require.NotEmpty(t, m.text)
}

// TestRefusedRecipientDoesNotBlockOthers has a recipient without a mailbox, and one in a domain
// that the operator forbade after the rule was stored.
func TestRefusedRecipientDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := serveMail(t, true)
	m.refused = "gone@"
	b.mail = courier.Mail{Address: m.listener.Addr().String(), From: "rubato@example.com", Security: courier.Clear, Domains: []string{"example.com"}}
	test := func(to ...string) notices.Result {
		r := notices.Rule{Name: "x", TenantID: b.by.TenantID, Spec: notices.Spec{Channel: notices.Channel{Kind: notices.Email, To: to}}}
		result, err := b.channels().Test(t.Context(), b.by, r)
		require.NoError(t, err)
		return result
	}

	require.Equal(t, "the mail server answered RCPT with 550", test("gone@example.com").Error)
	require.Equal(t, "no recipient is at a domain that the operator allows", test("c@other.example").Error)

	b.happen(t, notices.Channel{Kind: notices.Email, To: []string{"gone@example.com", "a@example.com", "c@other.example"}})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")
	list, err := b.notices.ListNotices(t.Context(), notices.Filter{TenantID: b.by.TenantID, Limit: 10})
	require.NoError(t, err)
	require.Equal(t, "1 of 3 recipients at domains that the operator does not allow got nothing; 1 of 3 recipients got nothing: the mail server answered RCPT with 550", list[0].Error)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Equal(t, []string{"TO:<a@example.com>"}, m.to)
}

// TestNoLineOfAMailIsTooLong sends to as many recipients as a rule can have, about an endpoint with
// the longest name. A server may refuse a line of more than 998 bytes (RFC 5322 section 2.1.1).
func TestNoLineOfAMailIsTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m := serveMail(t, true)
	b.mail = courier.Mail{Address: m.listener.Addr().String(), From: "rubato@example.com", Security: courier.Clear}
	name := strings.Repeat("監視", 127)
	var to []string
	for i := range 20 {
		to = append(to, fmt.Sprintf("%s-%d@example.com", strings.Repeat("on-call", 8), i))
	}
	b.happen(t, notices.Channel{Kind: notices.Email, To: to})
	b.exec(t, "UPDATE endpoints SET spec = spec || jsonb_build_object('name', $1::text)", name)
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	m.mu.Lock()
	defer m.mu.Unlock()
	for line := range strings.SplitSeq(m.text, "\r\n") {
		require.LessOrEqual(t, len(line), 998)
	}
	letter, err := mail.ReadMessage(strings.NewReader(m.text))
	require.NoError(t, err)
	list, err := letter.Header.AddressList("To")
	require.NoError(t, err)
	require.Len(t, list, len(to))
	subject, err := new(mime.WordDecoder).DecodeHeader(letter.Header.Get("Subject"))
	require.NoError(t, err)
	require.Contains(t, subject, name)
}
