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

// hop is one request of an exchange: the first, or one that a redirect asked for.
type hop struct {
	method string
	url    *url.URL
	header http.Header // the user's
	body   []byte
}

// bounds are those of what an exchange takes in.
type bounds struct {
	body      int64 // bytes of the answer's body
	tail      int64 // bytes of its end beside them
	redirects int
}

// exchange is one call from the first request to the last byte of the answer that counts.
type exchange struct {
	client      *Client
	first       *wire // of the first hop
	wire        *wire // of the hop under way
	tls         *TLS  // the setting of wire; nil: the usual one
	allowance   *Allowance
	meta        http.Header
	credentials []string
	sendBy      time.Time
	extended    func() time.Time   // see Request
	confirm     Confirmation       // zero from the second hop on: the first byte has left
	place       Place              // at the host of the hop
	hop         hop                // the request under way
	cancel      context.CancelFunc // ends the whole exchange
	patience    patience
	began       time.Time
	phases      Phases
	sent        bool
}

// attempt is one request handed to a transport.
type attempt struct {
	exchange *exchange
	to       remote
	watch    stopwatch
	sendBy   time.Time // see Request
	conn     *conn     // nil until there is one
	mark     int64     // what had been written to conn before
	session  *session  // over HTTP/2; the connection is shared then
	heard    int64     // what had been read from conn before
	left     bool      // over HTTP/2: the request may have been written
	reused   bool
	interims int // bytes of interim answers
}

// leave says that the exchange is over.
func (x *exchange) leave() {
	x.first.leave()
	if x.wire != x.first {
		x.wire.leave()
	}
}

// run visits the target and then wherever it redirects to, as far as may be.
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

// visit makes one hop. It returns the hop that must follow, or nil where the answer is the final one.
func (x *exchange) visit(ctx context.Context, may bounds, followed int) (Response, *hop, error) {
	hopCtx, cancel := ctx, x.cancel
	if may.redirects > 0 { // Giving up the rest of this answer must not end what follows it.
		hopCtx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	if err := x.place.Move(hopCtx, serverOf(x.hop.url)); err != nil {
		err = &fault{reason: Timeout, err: errBusyHost}
		if x.sent { // To whoever redirected.
			err = &fault{reason: Timeout, err: errors.Join(errLate, err)}
		}
		return Response{}, nil, x.fail(ctx, err, false)
	}
	answer, at, err := x.send(hopCtx)
	x.patience.stop()
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

// send puts the request of the hop on the wire, once, and returns the head of the answer. A kept connection may turn out to be
// dead before a byte of the request left; then, and only then, the request goes out through a fresh one.
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
		if !left && at.late() && !errors.Is(ctx.Err(), context.Canceled) { // Whoever gave it up says why.
			err = &fault{reason: x.lateness(), err: errors.Join(errLate, err), final: true}
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
	at.watch.enter(transferring) // Where an interim answer came first, nothing told of the begin of this one.
	if err := unfit(answer); err != nil {
		answer.Body.Close()
		return nil, at, err
	}
	answer.Body = x.patience.follow(answer.Body, x.cancel)
	if asked {
		unpack(answer)
	}
	return answer, at, nil
}

// lateness is the reason of a hop that would have begun too late: behind a redirect, something has been sent already.
func (x *exchange) lateness() Reason {
	if x.sent {
		return Timeout
	}
	return Late
}

// unfit returns why the head of an answer is none that a call may end with, or nil.
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

// repeatable reports whether the request of an attempt that failed may go out once more: a kept connection was dead before a byte of it left,
// and it may still begin.
func (a *attempt) repeatable() bool { return a.reused && !a.sent() && !a.late() }

func (x *exchange) attempt() *attempt {
	to := remote{secure: x.hop.url.Scheme == "https", address: net.JoinHostPort(x.hop.url.Hostname(), portOf(x.hop.url))}
	return &attempt{exchange: x, to: to, sendBy: x.sendBy}
}

// leaveBy returns until when the request of the hop may begin, and asks whoever sends it where what they knew is too old by now; zero: at any
// time. There is a connection for it.
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
		return x.began // Which is over.
	case x.sendBy.IsZero() || until.Before(x.sendBy):
		return until
	default:
		return x.sendBy
	}
}

// tooMany reports whether header has more fields than anybody needs.
func tooMany(header http.Header) bool {
	fields := 0
	for _, values := range header {
		fields += len(values)
	}
	return fields > maxHeaderFields
}

// request is the request of the hop, for one connection.
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

// gzipOnly is the value of a header that many requests share; nobody writes to it.
var gzipOnly = []string{"gzip"}

// fail describes err as the end of the exchange. lost says that the connection itself failed.
func (x *exchange) fail(ctx context.Context, err error, lost bool) *Error {
	x.phases.Total = time.Since(x.began)
	if cause := x.patience.lost(); cause != nil && ctx.Err() != nil {
		err = &fault{reason: Timeout, err: cause, final: true}
	}
	if known, ok := errors.AsType[*fault](err); ok && known.denial != "" {
		x.client.denied(known.denial)
	}
	e := &Error{Reason: reasonOf(ctx, err, lost), Sent: x.sent, Phases: x.phases, Err: err}
	if x.hop.url != nil {
		e.target = safeURL(x.hop.url)
	}
	return e
}
