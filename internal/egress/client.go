package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"time"
)

const (
	defaultTimeout   = 30 * time.Second // of an exchange whose request names none
	idleConnTimeout  = 90 * time.Second // how long an unused connection is kept
	idleConns        = 4096             // how many unused connections are kept in all
	idleConnsPerHost = 1024             // and for one host
	maxHeaderBytes   = 64 << 10         // of an answer, interim answers included
)

// Config says whom a [Client] may call and as whom. The zero value calls public addresses only.
type Config struct {
	// Allow names prefixes that may be called although they are not public. Metadata addresses stay refused.
	Allow []netip.Prefix
	// UserAgent is sent where a request has none of its own. Default "Rubato".
	UserAgent string
	// MaxConnsPerHost bounds the connections to one host and port; further calls wait inside their timeout. Zero is no bound.
	MaxConnsPerHost int
}

// Client calls targets over HTTP/1.1 and keeps connections for reuse. It is safe for concurrent use.
type Client struct {
	policy    *Policy
	userAgent string
	pooled    *http.Transport // keeps connections
	single    *http.Transport // one fresh connection per request, for the repetition of a request that never left
}

// Request is one call. Its maps and its body are only read.
type Request struct {
	Method       string        // GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
	URL          string        // absolute, http or https
	Header       http.Header   // the user's; every name and value must pass [CheckHeader]
	Meta         http.Header   // Rubato's own, such as Rubato-Run-Id; set last, so they win over the user's
	Body         []byte        // empty means none
	Timeout      time.Duration // of the whole exchange, redirects and the answer's body included; zero means 30 s
	MaxBody      int64         // bytes of the answer's body, decompressed, that are read and kept; zero keeps none
	MaxTail      int64         // bytes of its end that are kept beside them, where it is longer; zero reads no further than MaxBody
	MaxRedirects int           // redirects that are followed; zero makes a redirect the answer itself
	Credentials  []string      // names of headers that must not follow a redirect to another host, besides those that look like it
}

// Response is the answer of a target. Beside an error it holds as much of the answer as came: StatusCode is zero where
// nothing did.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte // at most MaxBody bytes
	Truncated  bool   // the body was longer than MaxBody
	Tail       []byte // the end of a body that was longer, at most MaxTail bytes; none where the end is more than 8 MiB away
	BytesRead  int64  // of the body, decompressed; all of it where it is not truncated or there is a tail
	Redirects  int    // redirects that were followed
	Elsewhere  bool   // redirects led to another host or port, which answered
	Phases     Phases
}

// New returns a client. It starts nothing; connections are made when calls need them.
func New(cfg Config) *Client {
	return newClient(cfg, net.DefaultResolver, &tls.Config{MinVersion: tls.VersionTLS12})
}

func newClient(cfg Config, resolver *net.Resolver, session *tls.Config) *Client {
	d := &dialer{policy: NewPolicy(cfg.Allow), resolver: resolver, tls: session}
	c := &Client{
		policy:    d.policy,
		userAgent: cmp.Or(cfg.UserAgent, "Rubato"),
		pooled:    newTransport(d, cfg.MaxConnsPerHost),
		single:    newTransport(d, cfg.MaxConnsPerHost),
	}
	c.single.DisableKeepAlives = true
	return c
}

// newTransport returns a transport without a proxy, even where the environment names one: it would hide targets from the guard.
func newTransport(d *dialer, maxConnsPerHost int) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            d.dial,
		DialTLSContext:         d.dialTLS,
		Protocols:              protocols,
		MaxIdleConns:           idleConns,
		MaxIdleConnsPerHost:    idleConnsPerHost,
		MaxConnsPerHost:        maxConnsPerHost,
		IdleConnTimeout:        idleConnTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
}

// Close closes the connections that are idle. It is for the end, when no call is in flight: those would keep theirs.
func (c *Client) Close() {
	c.pooled.CloseIdleConnections()
	c.single.CloseIdleConnections()
}

// Do makes the call that r describes and returns the answer, whatever its status. The error is nil or an [*Error]; where an
// answer had begun, the Response beside the error holds what came of it. A body longer than MaxBody is no error.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	x := &exchange{client: c, meta: r.Meta, credentials: r.Credentials, began: time.Now()}
	first, violation := c.admit(r)
	if violation != nil {
		return Response{}, x.fail(ctx, &fault{reason: EgressDenied, err: refusal{violation}}, false)
	}
	x.hop = first
	ctx, x.cancel = context.WithTimeout(ctx, cmp.Or(max(r.Timeout, 0), defaultTimeout))
	defer x.cancel()
	return x.run(ctx, limits{body: max(r.MaxBody, 0), tail: max(r.MaxTail, 0), redirects: r.MaxRedirects})
}

// admit repeats the checks of registration: rules and rows may have changed since.
func (c *Client) admit(r Request) (hop, *Violation) {
	if !sendable(r.Method) {
		return hop{}, &Violation{
			Code:    "method_invalid",
			Message: "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
		}
	}
	u, violation := c.policy.parse(r.URL)
	if violation != nil {
		return hop{}, violation
	}
	for name, values := range r.Header {
		for _, value := range values {
			if v := CheckHeader(name, value); v != nil {
				return hop{}, v
			}
		}
	}
	return hop{method: r.Method, url: u, header: r.Header, body: r.Body}, nil
}

func sendable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut,
		http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return true
	default:
		return false
	}
}
