package hosts

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/errs"
)

const (
	// maxThreshold bounds the user's threshold.
	maxThreshold = 1000
	// maxConcurrency bounds the user's limit of requests in flight, and minRate and maxRate that of
	// requests per second.
	maxConcurrency = 100_000
	minRate        = 0.01
	maxRate        = 100_000
	// minWindow is the shortest first window.
	minWindow = time.Second
	// maxName bounds a name in bytes: a host name by the limit of DNS, and a port.
	maxName = 260
)

// Store keeps breakers for users. Every method is one transaction, scoped by tenant. Changes are
// recorded in the audit log. A host without a row is [errs.NotFound].
type Store interface {
	// ListHosts returns breakers after a name, sorted by name.
	ListHosts(ctx context.Context, scope [16]byte, after string, limit int) ([]Breaker, error)
	GetHost(ctx context.Context, key Key) (Breaker, error)
	// SetHost stores the settings of a host, which need not have a row.
	SetHost(ctx context.Context, by auditlog.Actor, key Key, p Patch) (Breaker, error)
	// ResetHost closes a breaker.
	ResetHost(ctx context.Context, by auditlog.Actor, key Key) (Breaker, error)
	// CountEndpoints counts the endpoints of a tenant at hosts. A host without one is left out.
	CountEndpoints(ctx context.Context, tenant [16]byte, names []string) (map[string]Traffic, error)
}

// MostCounted bounds the endpoints of a host that are counted.
const MostCounted = 1000

// Traffic is what a tenant has at a host, counted up to [MostCounted].
type Traffic struct {
	// Endpoints is the number of endpoints in service.
	Endpoints int
	// Waiting is the number of those whose run is due and has not started, or comes later because
	// the breaker is open.
	Waiting int
}

// View is a breaker as a tenant sees it.
type View struct {
	Breaker
	Traffic
}

// Patch changes settings. A nil member stays, and a zero restores the default.
type Patch struct {
	Threshold   *int
	Window      *time.Duration
	Concurrency *int
	Rate        *float64
}

// Apply returns the settings after the patch.
func (p Patch) Apply(s Settings) Settings {
	if p.Threshold != nil {
		s.Threshold = *p.Threshold
	}
	if p.Window != nil {
		s.Window = *p.Window
	}
	if p.Concurrency != nil {
		s.Limits.Concurrency = *p.Concurrency
	}
	if p.Rate != nil {
		s.Limits.Rate = *p.Rate
	}
	return s
}

// Check returns the faults of a patch as an [errs.Invalid] that names every bad field.
func (p Patch) Check() error {
	var bad []errs.Field
	if n := p.Threshold; n != nil && (*n < 0 || *n > maxThreshold) {
		bad = append(bad, errs.Field{
			Field:   "failuresToOpen",
			Code:    "out_of_range",
			Message: fmt.Sprintf("must be from 1 to %d, or null for the default", maxThreshold),
		})
	}
	if d := p.Window; d != nil && *d != 0 && (*d < minWindow || *d > MaxWindow) {
		bad = append(bad, errs.Field{
			Field:   "windowMs",
			Code:    "out_of_range",
			Message: fmt.Sprintf("must be from %d to %d, or null for the default", minWindow.Milliseconds(), MaxWindow.Milliseconds()),
		})
	}
	if n := p.Concurrency; n != nil && (*n < 0 || *n > maxConcurrency) {
		bad = append(bad, errs.Field{
			Field:   "limits.concurrency",
			Code:    "out_of_range",
			Message: fmt.Sprintf("must be from 1 to %d, or null for no limit", maxConcurrency),
		})
	}
	if r := p.Rate; r != nil && *r != 0 && !(*r >= minRate && *r <= maxRate) { // A NaN is refused, too.
		bad = append(bad, errs.Field{
			Field:   "limits.rate",
			Code:    "out_of_range",
			Message: fmt.Sprintf("must be from %v to %d requests per second, or null for no limit", minRate, maxRate),
		})
	}
	return errs.InvalidFields(bad)
}

// ParseName returns the normal form of a name: host and port in lower case. A name without a port
// is that of HTTPS.
func ParseName(text string) (name string, ok bool) {
	text = strings.ToLower(text)
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = strings.Trim(text, "[]"), "443"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || host == "" || strings.ContainsAny(host, "/?#@[] ") || strings.ContainsFunc(host, control) {
		return "", false
	}
	name = net.JoinHostPort(strings.TrimSuffix(host, "."), strconv.FormatUint(number, 10))
	return name, len(name) <= maxName
}

func control(r rune) bool { return r < ' ' || r > '~' }

// Service implements the operations of users on breakers. It is safe for concurrent use.
type Service struct {
	store  Store
	shared bool
}

// NewService returns a service over a store. shared is set if all tenants share the breakers. Then
// each of them may see and change all breakers.
func NewService(store Store, shared bool) *Service { return &Service{store: store, shared: shared} }

// key returns the key of a name for a tenant, and an [errs.NotFound] if there is no such name.
func (s *Service) key(tenant [16]byte, text string) (Key, error) {
	name, ok := ParseName(text)
	if !ok {
		return Key{}, errs.New(errs.NotFound, "not_found", "there is no such host; the name of one is host and port, such as api.example.com:443")
	}
	return Key{Scope: s.scope(tenant), Host: name}, nil
}

func (s *Service) scope(tenant [16]byte) [16]byte {
	if s.shared {
		return [16]byte{}
	}
	return tenant
}

// List returns at most limit hosts after a name, sorted by name.
func (s *Service) List(ctx context.Context, by auditlog.Actor, after string, limit int) ([]View, error) {
	list, err := s.store.ListHosts(ctx, s.scope(by.TenantID), after, limit)
	if err != nil {
		return nil, err
	}
	return s.views(ctx, by, list)
}

// Get returns a host with failures or settings.
func (s *Service) Get(ctx context.Context, by auditlog.Actor, name string) (View, error) {
	return s.one(ctx, by, name, s.store.GetHost)
}

// Set changes the settings of a host. They apply from its next failure on.
func (s *Service) Set(ctx context.Context, by auditlog.Actor, name string, p Patch) (View, error) {
	return s.one(ctx, by, name, func(ctx context.Context, key Key) (Breaker, error) {
		if err := p.Check(); err != nil {
			return Breaker{}, err
		}
		return s.store.SetHost(ctx, by, key, p)
	})
}

// Reset closes the breaker of a host. Endpoints that wait for the end of a window still do.
func (s *Service) Reset(ctx context.Context, by auditlog.Actor, name string) (View, error) {
	return s.one(ctx, by, name, func(ctx context.Context, key Key) (Breaker, error) { return s.store.ResetHost(ctx, by, key) })
}

// one returns the view of the host that an operation returns.
func (s *Service) one(ctx context.Context, by auditlog.Actor, name string, do func(context.Context, Key) (Breaker, error)) (View, error) {
	key, err := s.key(by.TenantID, name)
	if err != nil {
		return View{}, err
	}
	found, err := do(ctx, key)
	if err != nil {
		return View{}, err
	}
	views, err := s.views(ctx, by, []Breaker{found})
	if err != nil {
		return View{}, err
	}
	return views[0], nil
}

// views adds the tenant's traffic to breakers.
func (s *Service) views(ctx context.Context, by auditlog.Actor, list []Breaker) ([]View, error) {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Host
	}
	traffic, err := s.store.CountEndpoints(ctx, by.TenantID, names)
	if err != nil {
		return nil, err
	}
	views := make([]View, len(list))
	for i, b := range list {
		views[i] = View{Breaker: b, Traffic: traffic[b.Host]}
	}
	return views, nil
}

// NotFound returns the error for a host without failures and settings.
func (k Key) NotFound() error {
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("no failures and no settings of %s are on record, so it is called", k.Host))
}

// Object returns the breaker as the object of an entry of the audit log.
func (b *Breaker) Object() auditlog.Object { return auditlog.Object{Kind: auditlog.Host, ID: b.Host} }

// Redacted returns the breaker in its form for the audit log: state and settings. A limit of zero
// is none.
func (b *Breaker) Redacted() map[string]any {
	return map[string]any{
		"state":              string(b.State),
		"failuresToOpen":     b.ToOpen(),
		"windowMs":           b.FirstWindow().Milliseconds(),
		"limits.concurrency": b.Limits.Concurrency,
		"limits.rate":        b.Limits.Rate,
	}
}
