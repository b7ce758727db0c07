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
	defaultTimeout   = 30 * time.Second // default total timeout of an exchange
	idleConnTimeout  = 90 * time.Second // idle timeout of a pooled connection
	idleConns        = 4096             // maximum of idle connections
	idleConnsPerHost = 1024             // maximum of idle connections per host
	maxHeaderBytes   = 64 << 10         // bytes of an answer's header, interim answers included
	// maxHeaderFields bounds the fields of an answer's header; browsers and proxies permit far
	// fewer.
	maxHeaderFields = 512
	// maxStatus is the maximum status of an answer, because a status has three digits (RFC 9110).
	maxStatus = 999
)

// Config is the configuration of a [Client]. The zero value permits public addresses only.
type Config struct {
	// Rules are the operator's egress rules.
	Rules Rules
	// UserAgent is the default User-Agent header. Default "Rubato".
	UserAgent string
	// HostSlots returns the HostSlot of a request that has none, by tenant. A call beyond the bound
	// waits for a slot within its timeout. Nil: no bound.
	HostSlots func(tenant [16]byte) HostSlot
	// Limits are timeouts of the steps of an exchange.
	Limits Limits
	// AllowSkipVerify permits requests that skip the verification of certificates.
	AllowSkipVerify bool
	// Proxy is an HTTP or HTTPS proxy. Every call goes through it by CONNECT, to an address that
	// the client has resolved and checked itself. The proxy's own address is not checked. Nil:
	// none.
	Proxy *url.URL
	// Registerer registers the metrics. Nil: they are not exported.
	Registerer prometheus.Registerer
}

// Limits are timeouts of the steps of an exchange, within its total timeout. Zero fields take their
// defaults.
type Limits struct {
	Connect time.Duration // name resolution and connection; default 10 s
	TLS     time.Duration // handshake; default 10 s
	Header  time.Duration // first byte of an answer to the end of its header; default 30 s
	Idle    time.Duration // pause between two bytes of a body; default 30 s
}

func (l Limits) filled() Limits {
	return Limits{
		Connect: cmp.Or(l.Connect, 10*time.Second), // Enough for three retransmissions of a SYN.
		TLS:     cmp.Or(l.TLS, 10*time.Second),
		Header:  cmp.Or(l.Header, 30*time.Second),
		Idle:    cmp.Or(l.Idle, 30*time.Second),
	}
}

// Client calls targets over HTTP/1.1 and HTTP/2 and pools connections. It is safe for concurrent
// use.
type Client struct {
	userAgent  []string // shared value of the header; read-only
	skipVerify bool     // requests may skip verification
	limits     Limits
	hostSlots  func(tenant [16]byte) HostSlot
	usual      *transport
	special    *transportCache
	denied     func(Denial)
}

// Request is one call. The client does not modify its maps and its body.
type Request struct {
	// Tenant is the owner of the request; zero: Rubato itself.
	Tenant [16]byte
	// HostSlot is the caller's semaphore slot for the host. The caller releases it after the call.
	// Nil: the client acquires one for the tenant.
	HostSlot HostSlot
	Method   string // GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS
	URL      string // absolute, http or https
	// Header holds the user's header fields, which must pass [CheckHeader], and the signature.
	Header http.Header
	// Meta holds Rubato's own fields, such as Rubato-Run-Id. They override fields of Header.
	Meta http.Header
	Body []byte // empty: none
	// SendBy is the send deadline of the first byte, because the sender may lose its lock after it.
	// Zero: none.
	SendBy time.Time
	// Extended returns the current SendBy. It is called before each redirected request. Nil: SendBy
	// stays.
	Extended func() time.Time
	// Confirm is the expiry of the decision to send the first byte. Zero: none.
	Confirm Confirmation
	// Timeout bounds the whole exchange, including redirects and the answer's body. Zero: 30 s.
	Timeout time.Duration
	// MaxBody is the maximum number of bytes kept of the decompressed body. Zero keeps none.
	MaxBody int64
	// MaxTail is the maximum number of bytes kept from the end of a body longer than MaxBody. Zero
	// stops reading at MaxBody.
	MaxTail int64
	// MaxRedirects bounds the followed redirects. At zero, a redirect is the final answer.
	MaxRedirects int
	// TLS is the TLS setting of the endpoint. Nil: the default.
	TLS *TLS
	// Allowance is the tenant's addition to the operator's allow list. Nil: none.
	Allowance *Allowance
	// Credentials names further headers, also of Meta, to drop on a redirect to another host,
	// beside those that look like credentials.
	Credentials []string
}

// Confirmation is the expiry of a decision to send. If the connection is ready only after Until,
// the client asks for a new decision, because the lock or the endpoint may have changed.
type Confirmation struct {
	Until time.Time // expiry of the caller's decision to send
	// Ask decides whether the request may still leave, and returns the expiry of that decision. It
	// is called after Until, when a connection is ready.
	Ask func(context.Context) (until time.Time, may bool)
}

// Response is the answer of a target. After an error it holds the part of the answer that came;
// StatusCode is zero if there was none.
type Response struct {
	StatusCode int
	Header     http.Header
	Body       []byte // at most MaxBody bytes
	Truncated  bool   // the body was longer than MaxBody
	// Tail is the end of a body longer than MaxBody, at most MaxTail bytes. It is empty if the end
	// lies more than 8 MiB beyond the head.
	Tail []byte
	// BytesRead counts decompressed bytes. It covers the whole body if Truncated is false or Tail
	// is set.
	BytesRead int64
	Redirects int  // number of followed redirects
	Elsewhere bool // a redirect led to another host or port, and its answer is the response
	Phases    Phases
}

// New returns a client. It starts no goroutine and makes no connection until the first call.
func New(cfg Config) *Client {
	return newClient(cfg, net.DefaultResolver, usualTLS())
}

func newClient(cfg Config, resolver *net.Resolver, session *tls.Config) *Client {
	limits := cfg.Limits.filled()
	d := dialer{
		policy:   NewPolicy(cfg.Rules),
		resolver: resolver,
		tls:      session,
		limits:   limits,
		proxy:    newProxy(cfg.Proxy),
	}
	return &Client{
		userAgent:  []string{cmp.Or(cfg.UserAgent, "Rubato")},
		skipVerify: cfg.AllowSkipVerify,
		limits:     limits,
		hostSlots:  cfg.HostSlots,
		usual:      newTransport(d),
		special:    newTransportCache(d, maxTransports),
		denied:     countDenials(cfg.Registerer),
	}
}

// Close closes idle connections. Call it after the last call, because connections in use return to
// the pool.
func (c *Client) Close() {
	c.usual.closeIdle()
	c.special.closeIdle()
}

// Do makes the call described by r and returns the answer, with any status. The error is nil or an
// [*Error]; if an answer had begun, the Response holds its part. A body longer than MaxBody is not
// an error.
func (c *Client) Do(ctx context.Context, r Request) (Response, error) {
	x := &exchange{
		client:      c,
		meta:        r.Meta,
		credentials: r.Credentials,
		tls:         r.TLS,
		allowance:   r.Allowance,
		sendBy:      r.SendBy,
		extended:    r.Extended,
		confirm:     r.Confirm,
		began:       time.Now(),
	}
	var err error
	if x.transport, err = c.transportOf(r); err == nil {
		x.hop, err = c.admit(x.transport.policy, r)
	}
	if err != nil {
		return Response{}, x.fail(ctx, err, false)
	}
	x.first = x.transport
	if x.hostSlot = r.HostSlot; x.hostSlot == nil {
		x.hostSlot = c.hostSlotOf(r.Tenant)
		defer x.hostSlot.Release()
	}
	defer x.leave()
	timeout := cmp.Or(max(r.Timeout, 0), defaultTimeout)
	x.timeouts = answerTimeouts{limits: c.limits, timeout: timeout}
	ctx, x.cancel = context.WithTimeout(ctx, timeout)
	defer x.cancel()
	return x.run(ctx, bounds{
		body:      max(r.MaxBody, 0),
		tail:      max(r.MaxTail, 0),
		redirects: r.MaxRedirects,
	})
}

// transportOf returns the transport for the TLS setting and the allowance of r.
func (c *Client) transportOf(r Request) (*transport, error) {
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

// admit repeats the checks of registration, because rules and stored endpoints may have changed
// since.
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
	return hop{
		method: r.Method,
		url:    u,
		header: r.Header,
		body:   r.Body,
	}, nil
}

// refuse returns the error of a request that breaks a rule.
func refuse(v *Violation) error {
	return &fault{
		reason: EgressDenied,
		err:    refusal{v},
		denial: v.denial(),
	}
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
