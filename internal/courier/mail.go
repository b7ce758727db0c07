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

	"rubato/internal/notices"
	"rubato/internal/oauth2"
)

// ErrNoMail is why no mail goes out where the operator has named no server.
var ErrNoMail = errors.New("this installation sends no mail: its operator must set RUBATO_SMTP_ADDRESS and RUBATO_SMTP_FROM")

// Security says how the connection to the mail server is kept from others.
type Security string

// The ways.
const (
	StartTLS Security = "starttls" // in the clear, then TLS, before anything is said; refused where the server has none
	TLS      Security = "tls"      // from the first byte
	Clear    Security = "none"     // not at all
)

// Mail is the mail server of the installation. The operator names it, so the egress guard does not check it.
type Mail struct {
	Address  string // host:port; empty: no mail goes out
	Hello    string // name in EHLO; empty: see Mail.hello
	From     string // address, or name and address as in "Rubato <rubato@example.com>"
	Username string // empty: no AUTH
	Password string // empty where Grant gets tokens
	Security Security
	Domains  []string     // to which mail may go, in lower case; nil: to all
	Session  *tls.Config  // how the TLS session is checked; nil: by the roots of the system
	Grant    oauth2.Grant // of the access tokens that XOAUTH2 presents; no TokenURL: AUTH takes the password
}

// Tokens gets the access tokens of XOAUTH2.
type Tokens interface {
	// Token returns a token of a grant, which may be one that it has kept.
	Token(ctx context.Context, g oauth2.Grant) (string, error)
	// Reject forgets a token because a server has refused it.
	Reject(g oauth2.Grant, token string)
}

// mailer sends notices by mail. It implements channel.
type mailer struct {
	Mail

	tokens Tokens
}

// send implements channel: one message to the recipients of the rule. A recipient that the server refuses for good is noted in the result;
// the message is not sent again for its sake, because the others would get it twice.
func (m mailer) send(ctx context.Context, p *notices.Delivery) notices.Result {
	note, err := m.deliver(ctx, p)
	if err != nil {
		return failed(err)
	}
	return notices.Result{Note: note}
}

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

// connect returns a session with the mail server after EHLO and TLS. It is bounded by ctx. The caller must call end.
func (m mailer) connect(ctx context.Context, from *mail.Address) (client *smtp.Client, end func(), err error) {
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the address of the mail server: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return nil, nil, errors.New("the mail server cannot be reached")
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
	client.SkipSMTPUTF8(true) // Addresses are ASCII. A relay could not pass the message on to a server without SMTPUTF8.
	if err = m.hello(client, host, from); err != nil {
		end()
		return nil, nil, err
	}
	return client, end, nil
}

// hello sends EHLO, and changes to TLS where the settings ask for STARTTLS. Strict relays refuse an EHLO without a domain name, so where no
// name is set it is the host's name if that has a dot, else the domain of the sender.
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

// allowed returns the recipients to whose domains mail may go as things stand: the rule may be older than the word of the operator.
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

// shortfall tells who of all recipients got nothing, and why; empty: nobody.
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

// authenticate signs in by XOAUTH2 where a grant is set, else with the password by PLAIN or LOGIN, as the server offers.
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

// transfer gives the server the message, for the recipients that it accepts. A recipient that it refuses for good does not keep the message
// from the others.
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
	_ = client.Quit() // The message is the server's already.
	return taken, refusal, nil
}

// mailError names the step that failed. Of the server's answer only the code is kept, because its text may be anything.
func mailError(step string, err error) error {
	if answer, answered := errors.AsType[*textproto.Error](err); answered {
		return fmt.Errorf("the mail server answered %s with %d", step, answer.Code)
	}
	return fmt.Errorf("the connection to the mail server broke at %s", step)
}

// message returns the mail. Notices of one episode share a thread. The Message-ID is the notice's, so that a server can drop a duplicate.
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
