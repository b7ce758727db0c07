package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// Reason is the class of a failed call.
type Reason string

// Values of [Reason].
const (
	DNSError      Reason = "dns_error"      // the name resolution failed
	ConnectError  Reason = "connect_error"  // no connection
	TLSError      Reason = "tls_error"      // no trusted TLS session
	Timeout       Reason = "timeout"        // a timeout of the exchange expired
	EgressDenied  Reason = "egress_denied"  // refused by the egress rules
	ProtocolError Reason = "protocol_error" // the answer is not valid HTTP
	// ResponseTooLarge is a header with too many bytes or fields. A long body is truncated instead.
	ResponseTooLarge Reason = "response_too_large"
	ConnectionLost   Reason = "connection_lost" // the connection ended before the answer did
	RedirectLimit    Reason = "redirect_limit"  // more redirects than the limit
	RedirectDenied   Reason = "redirect_denied" // a redirect to a forbidden target
	Canceled         Reason = "canceled"        // the caller canceled the context
	// Late reports that the send deadline passed or Confirm refused, so no byte was sent.
	Late Reason = "start_expired"
)

// OfTarget reports whether the target failed, or the network on the way to it. Otherwise the rules
// of this system ended the call, or the target answered.
func (r Reason) OfTarget() bool {
	switch r {
	case DNSError, ConnectError, TLSError, Timeout, ProtocolError, ConnectionLost:
		return true
	case EgressDenied, ResponseTooLarge, RedirectLimit, RedirectDenied, Canceled, Late:
	}
	return false
}

// Error is a call without a complete answer.
type Error struct {
	Reason Reason
	Sent   bool // a byte of a request may have reached the target
	Phases Phases
	Err    error // cause, for programs; its text may hold addresses and is not safe to show

	target string // scheme, host and path; empty if the URL itself is refused
}

// Error returns a text that is safe to show. It holds the scheme, host and path of the target, but
// no query, header, address or text from the target.
func (e *Error) Error() string {
	text := string(e.Reason) + ": " + explain(e.Reason, e.Err)
	if e.target == "" {
		return text
	}
	return "calling " + e.target + ": " + text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Causes detected by this package.
var (
	errDenied       = errors.New("the address may not be called")
	errLimit        = errors.New("too many redirects")
	errDowngrade    = errors.New("the redirect leaves https")
	errHandshake    = errors.New("the connection ended in the TLS handshake")
	errSwitched     = errors.New("the answer switches protocols")
	errStatus       = errors.New("the answer has no status of three digits")
	errSealed       = errors.New("the exchange has ended")
	errLate         = errors.New("the request would have left too late, or after a pause")
	errHeaderFields = errors.New("the answer has too many header fields")
	errHeaderBytes  = errors.New("the header of the answer is too long")
	errSlowHeader   = errors.New("the header of the answer does not end")
	errIdleBody     = errors.New("the body of the answer does not come on")
	errBusyHost     = errors.New("too many calls to the host are under way")
	errFlood        = errors.New("the target sends more than was asked for")
	errUnasked      = errors.New("the target answered what was not asked")
	errGoneAway     = errors.New("the target ends the connection")
	errNoStreams    = errors.New("the target takes no request on its connections")
	errUpgraded     = errors.New("the target speaks HTTP/2")
)

// fault is a failure with a known reason.
type fault struct {
	reason Reason
	err    error
	denial Denial // rule that refused the call; empty: none
	final  bool   // the reason stands even if the context has ended
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// refusal is a [Violation] as the cause of an error.
type refusal struct{ violation *Violation }

func (r refusal) Error() string { return r.violation.Code + ": " + r.violation.Message }

// reasonOf classifies err. The end of ctx has priority, because it may have caused any other
// failure. The argument lost means that the connection itself failed.
func reasonOf(ctx context.Context, err error, lost bool) Reason {
	known, ok := errors.AsType[*fault](err)
	switch {
	case ok && known.final:
		return known.reason
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Timeout
	case ctx.Err() != nil:
		return Canceled
	case ok:
		return known.reason
	case lost:
		return ConnectionLost
	default:
		return ProtocolError
	}
}

// explain describes a failure in fixed texts, because texts of the network and of targets may
// contain addresses or secrets.
func explain(reason Reason, err error) string {
	switch reason {
	case DNSError:
		return explainDNS(err)
	case ConnectError:
		if errors.Is(err, errHandshake) {
			return errHandshake.Error()
		}
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			return errno.Error()
		}
		if errors.Is(err, errProxy) {
			return errProxy.Error()
		}
		return "no connection within the time for connecting"
	case TLSError:
		return explainTLS(err)
	case Timeout:
		return explainTimeout(err)
	case EgressDenied, RedirectDenied:
		return explainRefusal(reason, err)
	case ProtocolError:
		return explainProtocol(err)
	case ResponseTooLarge:
		return explainSize(err)
	case ConnectionLost:
		return explainLoss(err)
	case RedirectLimit:
		return "the target redirected more often than may be followed"
	case Canceled:
		return "the call was canceled"
	case Late:
		return "its first byte would have left too late, so nothing was sent"
	}
	return "the call failed"
}

func explainTimeout(err error) string {
	switch {
	case errors.Is(err, errSlowHeader):
		return "the header of the answer began and was not complete within its time"
	case errors.Is(err, errIdleBody):
		return "no byte of the answer's body came for longer than it may pause"
	case errors.Is(err, errLate) && errors.Is(err, errBusyHost):
		return "the redirect was not followed: as many calls to its host as may be were under way until the timeout"
	case errors.Is(err, errLate):
		return "the redirect came too late to be followed"
	case errors.Is(err, errBusyHost):
		return "as many calls to this host as may be were under way for the whole timeout, so nothing was sent"
	default:
		return "the call took longer than its timeout"
	}
}

func explainProtocol(err error) string {
	switch {
	case errors.Is(err, errPacked), errors.Is(err, errRatio):
		return "the compressed answer is longer, or expands further, than may be"
	case errors.Is(err, errHalf):
		return "the compressed answer ends in the middle"
	case errors.Is(err, errNoGzip):
		return "the answer says that it is gzip, and is not"
	case errors.Is(err, errFlood):
		return "the target sent far more over HTTP/2 than was asked of it"
	case errors.Is(err, errStatus):
		return "the answer has a status that is not one of 200 to 999"
	default:
		return "the answer is not valid HTTP"
	}
}

func explainSize(err error) string {
	if errors.Is(err, errHeaderFields) {
		return "the answer has more than 512 header fields"
	}
	return "the header of the answer is larger than 64 KiB"
}

func explainLoss(err error) string {
	if errors.Is(err, errNoStreams) {
		return "the target takes no request on the connections that it accepts, so nothing was sent"
	}
	if ended, ok := errors.AsType[streamError](err); ok {
		if ended.Code == codeRefusedStream {
			return "the target refused the request unseen"
		}
		return "the target ended the exchange before the answer was complete"
	}
	return "the connection ended before the answer was complete"
}

func explainDNS(err error) string {
	dns, ok := errors.AsType[*net.DNSError](err)
	switch {
	case ok && dns.IsNotFound:
		return "the host name does not exist"
	case ok && dns.IsTimeout:
		return "the name servers did not answer in time"
	default:
		return "the host name could not be resolved"
	}
}

func explainTLS(err error) string {
	for _, setting := range []error{errCAs, errClientPair} {
		if errors.Is(err, setting) {
			return "in the endpoint's settings, " + setting.Error()
		}
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "the certificate is for another host"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "the certificate is signed by an unknown authority"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "the certificate has expired or is not yet valid"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the target does not speak TLS on this port"
	}
	// The text comes from a fixed list of the standard library.
	if alert, ok := errors.AsType[*net.OpError](err); ok && isAlert(err) {
		return "the target refused the TLS session: " + strings.TrimPrefix(alert.Err.Error(), "tls: ")
	}
	return "no TLS session could be agreed on"
}

// isAlert reports whether err is a TLS alert from the target.
func isAlert(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	return ok && remote.Op == "remote error" // The name in package crypto/tls.
}

func explainRefusal(reason Reason, err error) string {
	if reason == RedirectDenied {
		return "the redirect leads to where no call may go"
	}
	if r, ok := errors.AsType[refusal](err); ok {
		return r.Error()
	}
	return "the target is not a permitted destination"
}

// safeURL returns the scheme, host and path of u.
func safeURL(u *url.URL) string {
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}
