package courier

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"rubato/internal/hosts"
	"rubato/internal/notices"
	"rubato/internal/oauth2"
)

// ErrNoMail is the error of mail delivery without a configured mail server.
var ErrNoMail = errors.New("this installation sends no mail: its operator must set RUBATO_SMTP_ADDRESS and RUBATO_SMTP_FROM")

// Security is the transport security of the connection to the mail server.
type Security string

// The kinds of transport security.
const (
	// StartTLS upgrades to TLS before any command is sent. A server without STARTTLS is refused.
	StartTLS Security = "starttls"
	// TLS is implicit TLS.
	TLS Security = "tls"
	// Clear is plain text.
	Clear Security = "none"
)

// Mail configures the mail server of the installation. The egress guard does not check it, because
// the operator sets it.
type Mail struct {
	// Address is host:port; empty: mail is disabled.
	Address string
	// Hello is the name in EHLO; empty: see mailer.hello.
	Hello string
	// From is an address, or a name and address such as "Rubato <rubato@example.com>".
	From string
	// Username is empty to skip AUTH.
	Username string
	// Password is empty if Grant is used.
	Password string
	Security Security
	// Domains are the allowed recipient domains in lower case; nil: all.
	Domains []string
	// Session is the TLS configuration; nil: the system's roots.
	Session *tls.Config
	// Grant fetches the access tokens of XOAUTH2. Without a TokenURL, AUTH uses the password.
	Grant oauth2.Grant
}

// Tokens provides the access tokens of XOAUTH2.
type Tokens interface {
	// Token returns a token of a grant, possibly a cached one.
	Token(ctx context.Context, g oauth2.Grant) (string, error)
	// Reject drops a cached token after a server refused it.
	Reject(g oauth2.Grant, token string)
}

// mailer sends notices by SMTP. It implements channel.
type mailer struct {
	guarded
	Mail

	tokens Tokens
}

// send implements channel. It sends one message to all recipients of the rule. A permanently
// refused recipient is recorded in the note and not retried, because the other recipients would get
// the message twice.
func (m mailer) send(ctx context.Context, p *notices.Delivery) notices.Result {
	pass, refused := m.admit(hosts.Key{Host: m.Address}, p)
	if refused != nil {
		return *refused
	}
	note, err := m.deliver(ctx, p)
	m.receivers.End(pass, relayVerdict(ctx, err), time.Time{})
	if err != nil {
		return failed(err)
	}
	return notices.Result{Note: note}
}

// relayVerdict returns what an attempt says about the mail server. One that refuses a message or
// its recipients works.
func relayVerdict(ctx context.Context, err error) hosts.Verdict {
	switch {
	case err == nil:
		return hosts.Success
	case errors.Is(err, errUnreachable), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return hosts.Failure
	default:
		return hosts.Neutral
	}
}

// errUnreachable is a mail server without a connection.
var errUnreachable = errors.New("the mail server cannot be reached")

func (m mailer) deliver(ctx context.Context, p *notices.Delivery) (note string, err error) {
	if m.Address == "" || m.From == "" {
		return "", ErrNoMail
	}
	from, err := mail.ParseAddress(m.From)
	if err != nil {
		return "", fmt.Errorf("reading the sender of mail: %w", err)
	}
	to, err := m.allowed(p.Channel.To)
	if err != nil {
		return "", err
	}
	letter, err := message(p, from, to)
	if err != nil {
		return "", fmt.Errorf("writing the mail: %w", err)
	}
	client, end, err := m.connect(ctx, from)
	if err != nil {
		return "", err
	}
	defer end()
	if err := m.authenticate(ctx, client); err != nil {
		return "", err
	}
	taken, refusal, err := transfer(client, from, to, letter)
	if err != nil {
		return "", err
	}
	return shortfall(len(p.Channel.To), len(to), taken, refusal), nil
}

// connect dials the mail server and returns the session after EHLO and TLS. The deadline is that of
// ctx. The caller must call end.
func (m mailer) connect(ctx context.Context, from *mail.Address) (client *smtp.Client, end func(), err error) {
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of the mail server: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return nil, nil, errUnreachable
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	raw := conn
	end = func() { stop(); _ = raw.Close() }
	if m.Security == TLS {
		conn = tls.Client(conn, m.session(host))
	}
	if client, err = smtp.NewClient(conn, host); err != nil {
		end()
		return nil, nil, mailError("greeting", err)
	}
	client.SkipSMTPUTF8(true) // Addresses are ASCII, and a relay could not pass SMTPUTF8 on to a server without it.
	if err = m.hello(client, host, from); err != nil {
		end()
		return nil, nil, err
	}
	return client, end, nil
}

// hello sends EHLO and upgrades by STARTTLS if configured. Strict relays refuse an EHLO without a
// domain name. Without a configured name it is the host's name if that has a dot, otherwise the
// sender's domain.
func (m mailer) hello(client *smtp.Client, host string, from *mail.Address) error {
	name := m.Hello
	if name == "" {
		if name, _ = os.Hostname(); !strings.Contains(name, ".") {
			name = domainOf(from)
		}
	}
	if err := client.Hello(name); err != nil {
		return mailError("EHLO", err)
	}
	if m.Security != StartTLS {
		return nil
	}
	if offered, _ := client.Extension("STARTTLS"); !offered {
		return errors.New("the mail server offers no STARTTLS; set RUBATO_SMTP_SECURITY to tls, or to none where the way to it is safe")
	}
	if err := client.StartTLS(m.session(host)); err != nil {
		return mailError("STARTTLS", err)
	}
	return nil
}

// allowed filters the recipients by the operator's domains. It checks at each delivery, because the
// domains may have changed after the rule was stored.
func (m Mail) allowed(recipients []string) (to []string, err error) {
	for _, address := range recipients {
		if notices.JudgeRecipient(address, true, m.Domains) == nil {
			to = append(to, address)
		}
	}
	if len(to) == 0 {
		return nil, errors.New("no recipient is at a domain that the operator allows")
	}
	return to, nil
}

// shortfall describes the recipients that got no message and the reason; empty: all got it.
func shortfall(all, allowed, taken int, refusal error) string {
	var words []string
	if n := all - allowed; n > 0 {
		words = append(words, fmt.Sprintf("%d of %d recipients at domains that the operator does not allow got nothing", n, all))
	}
	if n := allowed - taken; n > 0 {
		words = append(words, fmt.Sprintf("%d of %d recipients got nothing: %s", n, all, refusal))
	}
	return strings.Join(words, "; ")
}

func (m Mail) session(host string) *tls.Config {
	session := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.Session != nil {
		session = m.Session.Clone()
	}
	session.ServerName = host
	return session
}

// authenticate uses XOAUTH2 if a grant is set, otherwise the password by PLAIN or LOGIN, as the
// server offers.
func (m mailer) authenticate(ctx context.Context, client *smtp.Client) error {
	if m.Username == "" {
		return nil
	}
	if m.Security == Clear {
		return errors.New("a password is not sent in the clear; set RUBATO_SMTP_SECURITY to starttls or tls")
	}
	_, offered := client.Extension("AUTH")
	offers := func(name string) bool { return slices.Contains(strings.Fields(strings.ToUpper(offered)), name) }
	var auth smtp.Auth
	var token string
	switch host, _, _ := net.SplitHostPort(m.Address); {
	case m.Grant.TokenURL != "" && offers("XOAUTH2"):
		var err error
		if token, err = m.tokens.Token(ctx, m.Grant); err != nil {
			return fmt.Errorf("signing in to the mail server: %w", err)
		}
		auth = smtp.XOAuth2Auth(m.Username, token)
	case m.Grant.TokenURL != "":
		return errors.New("the mail server offers no AUTH XOAUTH2; leave out RUBATO_SMTP_TOKEN_URL and set RUBATO_SMTP_PASSWORD")
	case offers("PLAIN"):
		auth = smtp.PlainAuth("", m.Username, m.Password, host, false)
	case offers("LOGIN"):
		auth = smtp.LoginAuth(m.Username, m.Password, host, false)
	default:
		return errors.New("the mail server offers neither AUTH PLAIN nor AUTH LOGIN")
	}
	if err := client.Auth(auth); err != nil {
		if token != "" {
			m.tokens.Reject(m.Grant, token)
		}
		return mailError("AUTH", err)
	}
	return nil
}

// transfer sends the message to the accepted recipients. refusal is the last permanent refusal of a
// recipient; the message still goes to the others.
func transfer(client *smtp.Client, from *mail.Address, to []string, letter *gomail.Msg) (taken int, refusal, err error) {
	if err := client.Mail("<" + from.Address + ">"); err != nil {
		return 0, nil, mailError("MAIL", err)
	}
	for _, address := range to {
		err := client.Rcpt("<" + address + ">")
		answer, answered := errors.AsType[*textproto.Error](err)
		switch {
		case err == nil:
			taken++
		case answered && answer.Code >= 500:
			refusal = mailError("RCPT", err)
		default:
			return 0, nil, mailError("RCPT", err)
		}
	}
	if taken == 0 {
		return 0, nil, refusal
	}
	w, err := client.Data()
	if err != nil {
		return 0, nil, mailError("DATA", err)
	}
	if _, err := letter.WriteTo(w); err != nil {
		return 0, nil, mailError("DATA", err)
	}
	if err := w.Close(); err != nil {
		return 0, nil, mailError("DATA", err)
	}
	_ = client.Quit() // The server has accepted the message already.
	return taken, refusal, nil
}

// mailError names the failed step and the status code. The server's text is dropped, because it is
// untrusted.
func mailError(step string, err error) error {
	if answer, answered := errors.AsType[*textproto.Error](err); answered {
		return fmt.Errorf("the mail server answered %s with %d", step, answer.Code)
	}
	return fmt.Errorf("the connection to the mail server broke at %s", step)
}

// message builds the mail. Notices of one episode share a thread. The Message-ID is the ID of the
// notice, so that a server can drop a duplicate.
func message(p *notices.Delivery, from *mail.Address, to []string) (*gomail.Msg, error) {
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.FromMailAddress(from)
	if err := m.To(to...); err != nil {
		return nil, err
	}
	domain := domainOf(from)
	m.Subject(p.Subject())
	m.SetDateWithValue(p.CreatedAt.UTC())
	m.SetMessageIDWithValue(p.ID.String() + "@" + domain)
	m.SetGenHeader(gomail.HeaderReferences, "<"+p.EpisodeID.String()+"@"+domain+">")
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetBodyString(gomail.TypeTextPlain, p.Subject()+"\r\n\r\n"+strings.Join(p.Lines(), "\r\n")+"\r\n")
	return m, nil
}

func domainOf(a *mail.Address) string { return a.Address[strings.LastIndexByte(a.Address, '@')+1:] }
