package courier_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	"net/mail"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/courier"
	"rubato/internal/notices"
)

// mailServer is an SMTP server that offers STARTTLS and takes one password.
type mailServer struct {
	listener net.Listener
	tls      *tls.Config
	roots    *x509.CertPool
	bare     bool   // offers no STARTTLS
	refused  string // knows no such recipient

	mu       sync.Mutex
	secured  bool
	signedIn string
	to       []string
	text     string
}

func serveMail(t *testing.T, bare bool) *mailServer {
	t.Helper()
	certified := httptest.NewTLSServer(nil) // For its certificate, which is for 127.0.0.1.
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

// talk is one session.
func (m *mailServer) talk(conn net.Conn) {
	defer func() { _ = conn.Close() }()
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
		case "EHLO":
			switch {
			case m.isSecured():
				say("250-mail.test\r\n250 AUTH PLAIN")
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
			raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(rest, "PLAIN "))
			m.note(func() { m.signedIn = string(raw) })
			say("235 welcome")
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
		Address: m.listener.Addr().String(), From: "rubato@example.com", Username: "u", Password: "p", Security: courier.StartTLS,
		Session: &tls.Config{RootCAs: m.roots, MinVersion: tls.VersionTLS12},
	}
	b.happen(t, notices.Channel{Kind: notices.Email, To: []string{"a@example.com", "b@example.com"}})
	b.deliver(t, b.notices)
	b.awaitState(t, "opened", "delivered")

	m.mu.Lock()
	defer m.mu.Unlock()
	require.True(t, m.secured)
	require.Equal(t, "\x00u\x00p", m.signedIn)
	require.Equal(t, []string{"TO:<a@example.com>", "TO:<b@example.com>"}, m.to)
	message, err := mail.ReadMessage(strings.NewReader(m.text))
	require.NoError(t, err)
	require.Equal(t, `"Shop <!channel> & co" fails: 3 failures in a row`, message.Header.Get("Subject"))
	require.Regexp(t, `^<ntc_.*@example\.com>$`, message.Header.Get("Message-ID"))
	body, err := io.ReadAll(quotedprintable.NewReader(message.Body))
	require.NoError(t, err)
	require.Contains(t, string(body), "Outcome: failed http_status (503)")
}

// TestNoMailGoesOutInTheClearUnasked has a server without TLS, and one that nobody vouches for.
func TestNoMailGoesOutInTheClearUnasked(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		bare bool
		want string
	}{
		"NoTLS":   {true, "the mail server offers no STARTTLS; set RUBATO_SMTP_SECURITY to tls, or to none where the way to it is safe"},
		"Unknown": {false, "the talk with the mail server broke at STARTTLS"},
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

// TestOneRecipientKeepsTheMailFromNobodyElse has a mailbox that is gone, and a domain that the operator forbade when the rule was there already.
func TestOneRecipientKeepsTheMailFromNobodyElse(t *testing.T) {
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

// TestNoLineOfAMailIsTooLong tells as many recipients as a rule can have of an endpoint whose name is as long as one can be. A server may refuse
// a line of more than 998 bytes (RFC 5322 section 2.1.1).
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
	b.exec(t, "UPDATE endpoints SET name = $1", name)
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
