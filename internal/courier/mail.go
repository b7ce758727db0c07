package courier

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"rubato/internal/notices"
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

// Mail is the mail server of the installation. The operator names it, so the guard does not judge it.
type Mail struct {
	Address  string // host:port; empty: no mail goes out
	From     string
	Username string // empty: nobody signs in
	Password string
	Security Security
	Domains  []string    // to which mail may go, in lower case; nil: to all
	Session  *tls.Config // how the TLS session is checked; nil: by the roots of the system
}

// send sends a parcel as one message to the recipients of its channel. What the note tells kept it from some of them: they get none, and the
// others no second one.
func (m Mail) send(ctx context.Context, p *notices.Parcel) (note string, err error) {
	if m.Address == "" || m.From == "" {
		return "", ErrNoMail
	}
	to, err := m.allowed(p.Channel.To)
	if err != nil {
		return "", err
	}
	host, _, err := net.SplitHostPort(m.Address)
	if err != nil {
		return "", fmt.Errorf("reading the address of the mail server: %w", err)
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.Address)
	if err != nil {
		return "", errors.New("the mail server cannot be reached")
	}
	defer func() { _ = conn.Close() }()
	if deadline, bounded := ctx.Deadline(); bounded {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", fmt.Errorf("bounding the talk with the mail server: %w", err)
		}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // Who gives up waits for no server.
	defer stop()
	if m.Security == TLS {
		conn = tls.Client(conn, m.session(host))
	}
	client, err := smtp.NewClient(conn, host)
	if err != nil {
		return "", mailError("greeting", err)
	}
	defer func() { _ = client.Close() }()
	if err := m.secure(client, host); err != nil {
		return "", err
	}
	taken, refusal, err := m.hand(client, p, to)
	if err != nil {
		return "", err
	}
	return shortfall(len(p.Channel.To), len(to), taken, refusal), nil
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

// secure makes the connection safe before a password is said.
func (m Mail) secure(client *smtp.Client, host string) error {
	if m.Security == StartTLS {
		if offered, _ := client.Extension("STARTTLS"); !offered {
			return errors.New("the mail server offers no STARTTLS; set RUBATO_SMTP_SECURITY to tls, or to none where the way to it is safe")
		}
		if err := client.StartTLS(m.session(host)); err != nil {
			return mailError("STARTTLS", err)
		}
	}
	if m.Username == "" {
		return nil
	}
	if m.Security == Clear {
		return errors.New("a password is not sent in the clear; set RUBATO_SMTP_SECURITY to starttls or tls")
	}
	if err := client.Auth(smtp.PlainAuth("", m.Username, m.Password, host)); err != nil {
		return mailError("AUTH", err)
	}
	return nil
}

// hand gives the server the message, for those of the recipients that it takes. A refusal for good of some keeps it from nobody else.
func (m Mail) hand(client *smtp.Client, p *notices.Parcel, to []string) (taken int, refusal, err error) {
	if err := client.Mail(m.From); err != nil {
		return 0, nil, mailError("MAIL", err)
	}
	for _, address := range to {
		err := client.Rcpt(address)
		told, answered := errors.AsType[*textproto.Error](err)
		switch {
		case err == nil:
			taken++
		case answered && told.Code >= 500:
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
	if _, err := w.Write(m.message(p, to)); err != nil {
		return 0, nil, mailError("DATA", err)
	}
	if err := w.Close(); err != nil {
		return 0, nil, mailError("DATA", err)
	}
	_ = client.Quit() // The message is the server's already.
	return taken, refusal, nil
}

// mailError names the step that failed. What a server answers is kept to its code: it may be anything.
func mailError(step string, err error) error {
	text := err.Error()
	if len(text) >= 3 && strings.Trim(text[:3], "0123456789") == "" {
		return fmt.Errorf("the mail server answered %s with %s", step, text[:3])
	}
	return fmt.Errorf("the talk with the mail server broke at %s", step)
}

// message returns the text of the mail. Notices of one episode share a thread. The ID is the notice's, however often it is sent. What may be
// long is folded: a line may have 998 bytes (RFC 5322 section 2.1.1).
func (m Mail) message(p *notices.Parcel, to []string) []byte {
	domain := m.From[strings.LastIndexByte(m.From, '@')+1:]
	thread := "<" + p.EpisodeID.String() + "@" + domain + ">"
	var b bytes.Buffer
	header := func(name, value string) { _, _ = fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", m.From)
	header("To", strings.Join(to, ",\r\n "))
	header("Subject", strings.ReplaceAll(mime.BEncoding.Encode("utf-8", p.Subject()), "?= =?", "?=\r\n =?"))
	header("Date", p.CreatedAt.UTC().Format(time.RFC1123Z))
	header("Message-ID", "<"+p.ID.String()+"@"+domain+">")
	header("References", thread)
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = q.Write([]byte(p.Subject() + "\r\n\r\n" + strings.Join(p.Lines(), "\r\n") + "\r\n"))
	_ = q.Close()
	return b.Bytes()
}
