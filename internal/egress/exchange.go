package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// hop is one request of an exchange: the first, or a redirected one.
type hop struct {
	method string
	url    *url.URL
	header http.Header // user's header fields
	body   []byte
}

// bounds are the limits of an exchange.
type bounds struct {
	body      int64 // bytes of the answer's body
	tail      int64 // bytes of the tail, beside the body
	redirects int
}

// exchange is one call, from the first request to the last byte of the final answer.
type exchange struct {
	client      *Client
	first       *transport // transport of the first hop
	transport   *transport // transport of the current hop
	tls         *TLS       // TLS setting of transport; nil: the default
	allowance   *Allowance
	meta        http.Header
	credentials []string
	sendBy      time.Time
	extended    func() time.Time // see Request
	// confirm is zero after the first hop, because the first byte has left by then.
	confirm  Confirmation
	hostSlot HostSlot           // semaphore slot for the host of the hop
	hop      hop                // current request
	cancel   context.CancelFunc // ends the whole exchange
	timeouts answerTimeouts
	began    time.Time
	phases   Phases
	sent     bool
}

// attempt is one request on one connection.
type attempt struct {
	exchange      *exchange
	to            remote
	watch         stopwatch
	sendBy        time.Time // see Request
	conn          *conn     // nil before the connection is ready
	writtenBefore int64     // bytes written to conn before this request
	session       *session  // HTTP/2 session, which shares conn; nil: HTTP/1.1
	readBefore    int64     // bytes read from conn before this request
	left          bool      // over HTTP/2: the request may have been written
	reused        bool
	interims      int // bytes of interim answers
}

// leave releases the transports at the end of the exchange.
func (x *exchange) leave() {
	x.first.leave()
	if x.transport != x.first {
		x.transport.leave()
	}
}

// run sends the first request and follows redirects up to the limit.
func (x *exchange) run(ctx context.Context, may bounds) (Response, error) {
	asked := x.hop.url
	for followed := 0; ; followed++ {
		response, next, err := x.visit(ctx, may, followed)
		response.Redirects, response.Elsewhere = followed, followed > 0 && !sameParty(asked, x.hop.url)
		if err != nil || next == nil {
			x.phases.Total = time.Since(x.began)
			response.Phases = x.phases
			return response, err
		}
		x.hop, x.confirm = *next, Confirmation{}
		if x.extended != nil {
			x.sendBy = x.extended()
		}
	}
}

// visit makes one hop. It returns the next hop, or nil if the answer is final.
func (x *exchange) visit(ctx context.Context, may bounds, followed int) (Response, *hop, error) {
	hopCtx, cancel := ctx, x.cancel
	if may.redirects > 0 { // A context of its own, because drain cancels it before the next hop.
		hopCtx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	if err := x.hostSlot.Move(hopCtx, serverOf(x.hop.url)); err != nil {
		err = &fault{reason: Timeout, err: errBusyHost}
		if x.sent { // The redirecting target got a request.
			err = &fault{reason: Timeout, err: errors.Join(errLate, err)}
		}
		return Response{}, nil, x.fail(ctx, err, false)
	}
	answer, at, err := x.send(hopCtx)
	x.timeouts.stop()
	if err != nil {
		at.watch.addTo(&x.phases)
		return Response{}, nil, x.fail(ctx, err, at.lost())
	}
	defer answer.Body.Close()
	response := Response{StatusCode: answer.StatusCode, Header: answer.Header}
	if may.redirects > 0 && redirects(answer) {
		drain(answer.Body, cancel)
		at.watch.addTo(&x.phases)
		next, err := x.follow(answer, may.redirects-followed)
		if err != nil {
			return response, nil, x.fail(ctx, err, false)
		}
		return response, next, nil
	}
	err = response.readBody(answer, may)
	at.watch.addTo(&x.phases)
	if err != nil {
		return response, nil, x.fail(ctx, err, at.lost())
	}
	if response.Truncated {
		drain(answer.Body, cancel)
	}
	return response, nil, nil
}

// send sends the request of the hop and returns the head of the answer. It repeats the request on a
// new connection only if the pooled connection was dead before any byte of the request left.
func (x *exchange) send(ctx context.Context) (*http.Response, *attempt, error) {
	asked := asksGzip(x.hop.method, x.hop.header)
	at := x.attempt()
	answer, err := at.do(ctx, false)
	if err != nil && ctx.Err() == nil && at.repeatable() {
		at.watch.addTo(&x.phases)
		at = x.attempt()
		answer, err = at.do(ctx, true)
	}
	if err != nil {
		left := at.sent()
		// A canceled context has the caller's reason.
		if !left && at.late() && !errors.Is(ctx.Err(), context.Canceled) {
			err = &fault{
				reason: x.lateness(),
				err:    errors.Join(errLate, err),
				final:  true,
			}
		}
		x.sent = left || x.sent
		if _, known := errors.AsType[*fault](err); !known && ctx.Err() == nil && at.overflowed() {
			err = &fault{reason: ResponseTooLarge, err: errors.Join(errHeaderBytes, err)}
		}
		if alert := at.refused(); alert != nil {
			err = &fault{reason: TLSError, err: alert}
		}
		return nil, at, err
	}
	x.sent = true
	// After an interim answer, the first byte of this one has no trace event.
	at.watch.enter(transferring)
	if err := unfit(answer); err != nil {
		answer.Body.Close()
		return nil, at, err
	}
	answer.Body = x.timeouts.follow(answer.Body, x.cancel)
	if asked {
		unpack(answer)
	}
	return answer, at, nil
}

// lateness returns the reason of a missed send deadline. After a redirect it is Timeout, because an
// earlier request has been sent.
func (x *exchange) lateness() Reason {
	if x.sent {
		return Timeout
	}
	return Late
}

// unfit returns a fault if the head of an answer is invalid as a final answer, or nil.
func unfit(answer *http.Response) error {
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols:
		return &fault{reason: ProtocolError, err: errSwitched}
	case answer.StatusCode < 200 || answer.StatusCode > maxStatus:
		return &fault{reason: ProtocolError, err: errStatus}
	case tooMany(answer.Header):
		return &fault{reason: ResponseTooLarge, err: errHeaderFields}
	default:
		return nil
	}
}

// repeatable reports whether the request of a failed attempt may be sent again: its pooled
// connection was dead before any byte left, and the send deadline has not passed.
func (a *attempt) repeatable() bool { return a.reused && !a.sent() && !a.late() }

func (x *exchange) attempt() *attempt {
	to := remote{secure: x.hop.url.Scheme == "https", address: net.JoinHostPort(x.hop.url.Hostname(), portOf(x.hop.url))}
	return &attempt{
		exchange: x,
		to:       to,
		sendBy:   x.sendBy,
	}
}

// leaveBy returns the send deadline of the hop; zero: none. If the caller's decision has expired,
// it asks for a new one. Call it once a connection is ready.
func (x *exchange) leaveBy(ctx context.Context) time.Time {
	if x.confirm.Ask == nil {
		return x.sendBy
	}
	until, may := x.confirm.Until, true
	if time.Now().After(until) {
		until, may = x.confirm.Ask(ctx)
	}
	switch {
	case !may:
		return x.began // An instant in the past.
	case x.sendBy.IsZero() || until.Before(x.sendBy):
		return until
	default:
		return x.sendBy
	}
}

// tooMany reports whether header has more than maxHeaderFields fields.
func tooMany(header http.Header) bool {
	fields := 0
	for _, values := range header {
		fields += len(values)
	}
	return fields > maxHeaderFields
}

// request returns the request of the hop for one connection.
func (x *exchange) request() *http.Request {
	r := &http.Request{
		Method: x.hop.method,
		URL:    x.hop.url,
		Host:   x.hop.url.Host,
		Header: x.client.wireHeader(x.hop.header, x.meta),
	}
	if asksGzip(x.hop.method, r.Header) {
		r.Header["Accept-Encoding"] = gzipOnly
	}
	if len(x.hop.body) > 0 {
		r.ContentLength = int64(len(x.hop.body))
		r.Body = io.NopCloser(bytes.NewReader(x.hop.body))
	}
	return r
}

// gzipOnly is a header value shared by many requests; read-only.
var gzipOnly = []string{"gzip"}

// fail returns err as the error of the exchange. The argument lost means that the connection itself
// failed.
func (x *exchange) fail(ctx context.Context, err error, lost bool) *Error {
	x.phases.Total = time.Since(x.began)
	if cause := x.timeouts.lost(); cause != nil && ctx.Err() != nil {
		err = &fault{
			reason: Timeout,
			err:    cause,
			final:  true,
		}
	}
	if known, ok := errors.AsType[*fault](err); ok && known.denial != "" {
		x.client.denied(known.denial)
	}
	e := &Error{
		Reason: reasonOf(ctx, err, lost),
		Sent:   x.sent,
		Phases: x.phases,
		Err:    err,
	}
	if x.hop.url != nil {
		e.target = safeURL(x.hop.url)
	}
	return e
}
