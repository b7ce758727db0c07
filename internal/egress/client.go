package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	defaultTimeout   = 30 * time.Second // of an exchange whose request names none
	idleConnTimeout  = 90 * time.Second // how long an unused connection is kept
	idleConns        = 4096             // how many unused connections are kept in all
	idleConnsPerHost = 1024             // and for one host
	maxHeaderBytes   = 64 << 10         // of an answer, interim answers included
	maxHeaderFields  = 512              // of an answer; browsers and proxies give up far earlier
	maxStatus        = 999              // of an answer: by RFC 9110 a status has three digits
)

// Config says whom a [Client] may call and as whom. The zero value calls public addresses only.
type Config struct {
	// Rules say whom the client may call.
	Rules Rules
	// UserAgent is sent where a request has none of its own. Default "Rubato".
	UserAgent string
	// Places returns the place at hosts of a request that has none of its own, for the tenant that it names. Further calls wait inside
	// their timeout. Nil: no bound.
	Places func(tenant [16]byte) Place
	// Limits bound the steps of an exchange.
	Limits Limits
	// AllowSkipVerify lets requests trust whoever answers.
	AllowSkipVerify bool
	// Proxy is an HTTP proxy, http or https, through which every call goes by CONNECT. It is asked for addresses that the client
	// resolved and judged itself; its own address is judged by nobody. Nil: none.
	Proxy *url.URL
	// Registerer takes the metrics. Nil: nobody reads them.
	Registerer prometheus.Registerer
}

// Limits bound the steps of an exchange, inside the timeout of the whole. Zero fields take their defaults.
type Limits struct {
	Connect time.Duration // resolving the name and connecting; default 10 s
	TLS     time.Duration // the handshake; default 10 s
	Header  time.Duration // from the first byte of an answer to the end of its header; default 30 s
	Idle    time.Duration // between two bytes of a body; default 30 s
}

func (l Limits) filled() Limits {
	return Limits{
		Connect: cmp.Or(l.Connect, 10*time.Second), // Three retransmissions of a SYN, and then some.
		TLS:     cmp.Or(l.TLS, 10*time.Second),
		Header:  cmp.Or(l.Header, 30*time.Second),
		Idle:    cmp.Or(l.Idle, 30*time.Second),
	}
}

// Client calls targets over HTTP/1.1 and HTTP/2 and keeps connections for reuse. It is safe for concurrent use.
type Client struct {
	userAgent  []string // the values of the header; nobody writes to them
	skipVerify bool     // requests may ask for it
	limits     Limits
	places     func(tenant [16]byte) Place
	usual      *wire
	special    *wires
	denied     func(Denial)
}

// Request is one call. Its maps and its body are only read.
type Request struct {
	// Tenant is the tenant whose request it is; zero: Rubato's own.
	Tenant [16]byte
	// Place is the place that the caller holds at hosts for this call, and releases after it. Nil: the client takes one of the tenant.
	Place        Place
	Method       string           // GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
	URL          string           // absolute, http or https
	Header       http.Header      // the user's, which must pass [CheckHeader], and the signature
	Meta         http.Header      // Rubato's own, such as Rubato-Run-Id; set last, so they win over the user's
	Body         []byte           // empty means none
	SendBy       time.Time        // the latest instant at which its first byte may leave, as its sender may have lost its lock after it; zero: at any time
	Extended     func() time.Time // what SendBy has become by now, asked before what a redirect asks for; nil: it stays
	Confirm      Confirmation     // what its first byte needs in addition; zero: nothing
	Timeout      time.Duration    // of the whole exchange, redirects and the answer's body included; zero means 30 s
	MaxBody      int64            // bytes of the answer's body, decompressed, that are read and kept; zero keeps none
	MaxTail      int64            // bytes of its end that are kept beside them, where it is longer; zero reads no further than MaxBody
	MaxRedirects int              // redirects that are followed; zero makes a redirect the answer itself
	TLS          *TLS             // how the TLS session differs; nil: in nothing
	Allowance    *Allowance       // what the tenant may call besides what everybody may; nil: nothing
	Credentials  []string         // names of headers that must not follow a redirect to another host, besides those that look like credentials
}

// Confirmation bounds how long a decision to send is good. Where there is no connection before Until, whoever decided is asked again: the
// world may have changed meanwhile.
type Confirmation struct {
	Until time.Time // the first byte that leaves before needs no more
	// Ask says whether the request may still leave, and until when that holds. It is asked once there is a connection, after Until.
	Ask func(context.Context) (until time.Time, may bool)
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
	return newClient(cfg, net.DefaultResolver, usualTLS())
}

func newClient(cfg Config, resolver *net.Resolver, session *tls.Config) *Client {
	limits := cfg.Limits.filled()
	d := dialer{policy: NewPolicy(cfg.Rules), resolver: resolver, tls: session, limits: limits, proxy: newProxy(cfg.Proxy)}
	return &Client{
		userAgent:  []string{cmp.Or(cfg.UserAgent, "Rubato")},
		skipVerify: cfg.AllowSkipVerify,
		limits:     limits,
		places:     cfg.Places,
		usual:      newWire(d),
		special:    newWires(d, maxWires),
		denied:     countDenials(cfg.Registerer),
	}
}

// Close closes the connections that are idle. It is for the end, when no call is in flight: those would keep theirs.
func (c *Client) Close() {
	c.usual.closeIdle()
	c.special.closeIdle()
}

// Do makes the call that r describes and returns the answer, whatever its status. The error is nil or an [*Error]; where an
// answer had begun, the Response beside the error holds what came of it. A body longer than MaxBody is no error.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	x := &exchange{
		client: c, meta: r.Meta, credentials: r.Credentials, tls: r.TLS, allowance: r.Allowance, sendBy: r.SendBy, extended: r.Extended,
		confirm: r.Confirm, began: time.Now(),
	}
	var err error
	if x.wire, err = c.wireOf(r); err == nil {
		x.hop, err = c.admit(x.wire.policy, r)
	}
	if err != nil {
		return Response{}, x.fail(ctx, err, false)
	}
	x.first = x.wire
	if x.place = r.Place; x.place == nil {
		x.place = c.placeOf(r.Tenant)
		defer x.place.Release()
	}
	defer x.leave()
	timeout := cmp.Or(max(r.Timeout, 0), defaultTimeout)
	x.patience = patience{limits: c.limits, timeout: timeout}
	ctx, x.cancel = context.WithTimeout(ctx, timeout)
	defer x.cancel()
	return x.run(ctx, bounds{body: max(r.MaxBody, 0), tail: max(r.MaxTail, 0), redirects: r.MaxRedirects})
}

// wireOf returns the connections that r may use.
func (c *Client) wireOf(r Request) (*wire, error) {
	if r.TLS == nil && r.Allowance == nil {
		return c.usual, nil
	}
	var setting TLS
	if r.TLS != nil {
		setting = *r.TLS
	}
	if setting.SkipVerify && !c.skipVerify {
		return nil, refuse(&Violation{Code: "tls_forbidden", Message: "must verify the target: the operator does not permit otherwise"})
	}
	return c.special.get(setting, r.Allowance)
}

// admit repeats the checks of registration: rules and rows may have changed since.
func (c *Client) admit(policy *Policy, r Request) (hop, error) {
	if !sendable(r.Method) {
		return hop{}, refuse(&Violation{
			Code:    "method_invalid",
			Message: "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS",
		})
	}
	u, violation := policy.parse(r.URL)
	if violation != nil {
		return hop{}, refuse(violation)
	}
	for name, values := range r.Header {
		for _, value := range values {
			if v := checkSent(name, value); v != nil {
				return hop{}, refuse(v)
			}
		}
	}
	return hop{method: r.Method, url: u, header: r.Header, body: r.Body}, nil
}

// refuse returns a request that breaks a rule as an error.
func refuse(v *Violation) error {
	return &fault{reason: EgressDenied, err: refusal{v}, denial: v.denial()}
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
