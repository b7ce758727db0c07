package httpapi_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rubato/internal/auditlog"
	"rubato/internal/auth"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/hosts"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/signing"
	"rubato/internal/spending"
	"rubato/internal/stats"
	"rubato/internal/tempo"
)

// now is the database's time in these tests. It is later than any real clock, because answers to
// writes use the real clock.
var now = time.Date(2098, 11, 21, 10, 0, 0, 0, time.UTC)

// memory is an endpoints.Store without a database.
type memory struct {
	mu        sync.Mutex
	endpoints map[endpoints.ID]*endpoints.Endpoint
	decisions map[endpoints.ID]endpoints.Recorded
	oneOffs   map[string]endpoints.OneOff // by key
	keys      map[auth.KeyID]auth.Key
	secrets   map[string]secrets.Secret
	budgets   map[string]spending.Budget
	hosts     map[hosts.Key]hosts.Breaker
	signing   map[signing.KeyID]signing.Key
	sealed    []secrets.Sealed // everything that was stored sealed
	entries   []auditlog.Entry
	writes    int
	err       error // what every method fails with
}

var _ endpoints.Store = (*memory)(nil)

func newMemory() *memory {
	return &memory{
		endpoints: map[endpoints.ID]*endpoints.Endpoint{}, decisions: map[endpoints.ID]endpoints.Recorded{}, oneOffs: map[string]endpoints.OneOff{}, keys: map[auth.KeyID]auth.Key{},
		secrets: standingSecrets(), budgets: standingBudgets(), hosts: standingHosts(), signing: standingSigningKeys(),
	}
}

func (m *memory) Create(_ context.Context, _ auditlog.Act, create func(time.Time) (*endpoints.Endpoint, endpoints.Recorded, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	e, planned, err := create(now)
	if err != nil {
		return err
	}
	for _, other := range m.endpoints {
		if e.Spec.Key != "" && other.Spec.Key == e.Spec.Key {
			return errs.New(errs.Conflict, "key_taken", "another endpoint has this key")
		}
	}
	m.keep(e, &planned)
	return nil
}

func (m *memory) keep(e *endpoints.Endpoint, planned *endpoints.Recorded) {
	m.writes++
	m.endpoints[e.ID] = e
	if planned != nil {
		m.decisions[e.ID] = *planned
	}
}

// Versions implements httpapi.Versions with the current version alone.
func (m *memory) Versions(_ context.Context, tenant [16]byte, id endpoints.ID, before int64, _ int) ([]endpoints.Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoints[id]
	if m.err != nil || e == nil || e.TenantID != tenant || e.Version >= before {
		return nil, m.err
	}
	return []endpoints.Version{{Number: e.Version, ChangedAt: e.UpdatedAt, Spec: e.Spec}}, nil
}

// Decisions implements httpapi.Ledger with the last decision, repeated as often as it was written.
func (m *memory) Decisions(_ context.Context, tenant [16]byte, id endpoints.ID, after endpoints.LedgerPosition, limit int) ([]endpoints.LedgerDecision, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.endpoints[id]
	if m.err != nil || e == nil || e.TenantID != tenant {
		return nil, m.err
	}
	var list []endpoints.LedgerDecision
	for n := cmp.Or(after.Change, 4) - 1; n > 0 && len(list) < limit; n-- {
		list = append(list, endpoints.LedgerDecision{
			Recorded:    m.decisions[id],
			StoredInput: []byte(`{"now": "2026-03-01T12:00:00Z"}`),
			Position:    endpoints.LedgerPosition{Change: n},
		})
	}
	return list, nil
}

func (m *memory) Get(_ context.Context, tenant [16]byte, id endpoints.ID) (*endpoints.Endpoint, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(tenant, id)
	return e, now, err
}

func (m *memory) find(tenant [16]byte, id endpoints.ID) (*endpoints.Endpoint, error) {
	if m.err != nil {
		return nil, m.err
	}
	e, ok := m.endpoints[id]
	if id == samples()[0].EndpointID { // The endpoint of the sample runs is not listed.
		e, ok = &endpoints.Endpoint{ID: id, TenantID: auth.DefaultTenant(), Version: 1, Spec: sampleSpec()}, true
	}
	if !ok || e.TenantID != tenant {
		return nil, errs.New(errs.NotFound, "", "there is no such endpoint")
	}
	return new(*e), nil
}

// sampleSpec is the configuration of the endpoint of the sample runs.
func sampleSpec() endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.URL, s.BaselineInterval = "sample", "https://api.example.com/", time.Minute
	return s.Normalize()
}

func (m *memory) List(_ context.Context, f endpoints.Filter) ([]*endpoints.Endpoint, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*endpoints.Endpoint
	for id, e := range m.endpoints {
		if e.TenantID == f.TenantID && (f.Before == endpoints.ID{} || slices.Compare(id[:], f.Before[:]) < 0) && selects(f, e) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *endpoints.Endpoint) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return list[:min(len(list), f.Limit)], now, m.err
}

func selects(f endpoints.Filter, e *endpoints.Endpoint) bool {
	for k, v := range f.Labels {
		if e.Spec.Labels[k] != v {
			return false
		}
	}
	state := "active"
	if e.Archived() {
		state = "archived"
	} else if e.PausedAt(now) {
		state = "paused"
	}
	return (f.Key == "" || f.Key == e.Spec.Key) && (f.Name == "" || f.Name == e.Spec.Name) &&
		(f.State == state || f.State == "" && state != "archived")
}

func (m *memory) OneOffKey(_ context.Context, _ [16]byte, _ endpoints.ID, key string) (slot time.Time, fingerprint []byte, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.oneOffs[key].Slot, m.oneOffs[key].Fingerprint, m.err
}

// PastRequest knows the current configuration alone.
func (m *memory) PastRequest(_ context.Context, tenant [16]byte, run endpoints.RecordedRun) (endpoints.PastRequest, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(tenant, run.Endpoint)
	if err != nil {
		return endpoints.PastRequest{}, m.err
	}
	return endpoints.PastRequest{Version: e.Version, Spec: &e.Spec, Key: run.Key}, nil
}

func (m *memory) Change(
	_ context.Context, act auditlog.Act, id endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error),
) (*endpoints.Endpoint, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, err := m.find(act.By.TenantID, id)
	if err != nil {
		return nil, err
	}
	e.Spec.Headers = maps.Clone(e.Spec.Headers)
	planned, err := change(e, now)
	if err != nil {
		return nil, err
	}
	if item := e.State.OneOffs.Added; item != nil {
		if item.Key != nil {
			m.oneOffs[*item.Key] = *item
		}
		e.State.OneOffs.Added = nil
	}
	m.keep(e, planned)
	return new(*e), nil
}

// Noise returns one finding, which no verdict changes.
func (m *memory) Noise(context.Context, [16]byte, endpoints.ID) ([]endpoints.Finding, error) {
	return []endpoints.Finding{{
		Path:    "$.now",
		Pairs:   10,
		Gap:     time.Second,
		FoundAt: now,
	}}, nil
}

func (m *memory) LastDecision(_ context.Context, tenant [16]byte, id endpoints.ID) (endpoints.Recorded, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.find(tenant, id)
	return m.decisions[id], err
}

func (m *memory) Find(_ context.Context, tenant [16]byte, ids []endpoints.ID, keys []string) ([]*endpoints.Endpoint, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []*endpoints.Endpoint
	for id, e := range m.endpoints {
		named := slices.Contains(ids, id) || e.Spec.Key != "" && slices.Contains(keys, e.Spec.Key)
		if named && e.TenantID == tenant && !e.Archived() {
			found = append(found, new(*e))
		}
	}
	return found, now, m.err
}

// KnownSecrets reports every secret as known except "none".
func (m *memory) KnownSecrets(_ context.Context, _ [16]byte, names []string) ([]string, error) {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "none" }), m.err
}

func (m *memory) CreateMany(_ context.Context, _ auditlog.Act, create func(time.Time) ([]endpoints.New, error)) ([]endpoints.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all, err := create(now)
	for _, n := range all {
		m.keep(n.Endpoint, &n.Planned)
	}
	return nil, errors.Join(m.err, err)
}

func (m *memory) ChangeMany(
	_ context.Context, _ auditlog.Act, ids []endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, bool),
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		e := new(*m.endpoints[id])
		if planned, keep := change(e, now); keep {
			m.keep(e, planned)
		}
	}
	return m.err
}

// emptyFeed is a feed without events.
type emptyFeed struct{}

func (emptyFeed) Head(context.Context) (feed.Position, time.Time, error) {
	return feed.Position{TxID: 1, At: now}, now, nil
}

func (emptyFeed) Read(_ context.Context, q feed.Query) (feed.Page, error) {
	return feed.Page{Next: q.After}, nil
}

// history is httpapi.Runs without a database.
type history []runs.Run

func (h history) List(_ context.Context, f runs.Filter) ([]runs.Run, error) {
	var list []runs.Run
	for _, r := range h {
		if r.TenantID == f.TenantID && (f.EndpointID == [16]byte{} || r.EndpointID == f.EndpointID) &&
			(len(f.Statuses) == 0 || slices.Contains(f.Statuses, r.Outcome.Status)) && (f.Before == runs.ID{} || slices.Compare(r.ID[:], f.Before[:]) < 0) &&
			(f.From.IsZero() || !r.ScheduledFor.Before(f.From)) && (f.To.IsZero() || r.ScheduledFor.Before(f.To)) {
			r.Outcome.Body = nil
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b runs.Run) int { return slices.Compare(b.ID[:], a.ID[:]) })
	return list[:min(len(list), f.Limit)], nil
}

func (h history) Get(_ context.Context, tenant [16]byte, id runs.ID) (runs.Run, error) {
	for _, r := range h {
		if r.ID == id && r.TenantID == tenant {
			return r, nil
		}
	}
	return runs.Run{}, errs.New(errs.NotFound, "", "there is no such run")
}

func (h history) Events(ctx context.Context, tenant [16]byte, id runs.ID) ([]runs.Event, error) {
	r, err := h.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	var kept []runs.Event
	if !r.CancelRequestedAt.IsZero() {
		kept = append(kept, runs.Event{At: r.CancelRequestedAt, Kind: runs.EventCancelRequested, Author: r.Outcome.ContentType, Why: r.Outcome.Error})
	}
	return runs.Timeline(r, kept), nil
}

// Cancel stores author and reason if the live run has none.
func (h history) Cancel(ctx context.Context, c runs.Cancel) (runs.Run, error) {
	r, err := h.Get(ctx, c.By.TenantID, c.RunID)
	switch {
	case err != nil:
		return runs.Run{}, err
	case r.Outcome.Status.Terminal():
		return runs.Run{}, errs.New(errs.Conflict, "run_finished", "run "+c.RunID.String()+" is over ("+string(r.Outcome.Status)+")")
	}
	i := slices.IndexFunc(h, func(r runs.Run) bool { return r.ID == c.RunID })
	if h[i].CancelRequestedAt.IsZero() {
		h[i].CancelRequestedAt, h[i].Outcome.ContentType, h[i].Outcome.Error = now, c.By.Name, c.Reason
	}
	answer := h[i]
	answer.Outcome.ContentType, answer.Outcome.Error = "", ""
	return answer, nil
}

// keyring is an auth.Store of fixed keys.
type keyring map[[sha256.Size]byte]auth.Principal

func (k keyring) FindKey(_ context.Context, hash [sha256.Size]byte) (auth.Principal, error) {
	p, ok := k[hash]
	if !ok {
		return auth.Principal{}, errs.New(errs.NotFound, "", "there is no such key")
	}
	return p, nil
}

// targets refuses URLs without http and some headers.
type targets struct{}

func (targets) CheckURL(url string) *errs.Field {
	switch {
	case len(url) > 2048:
		return &errs.Field{Code: "too_long", Message: "must be at most 2048 characters long"}
	case strings.ContainsRune(url, 0):
		return &errs.Field{Code: "url_invalid", Message: "must hold no control characters"}
	case !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://"):
		return &errs.Field{Code: "url_scheme", Message: "must begin with http:// or https://"}
	}
	return nil
}

func (targets) CheckHeader(name, value string) *errs.Field {
	if strings.EqualFold(name, "host") {
		return &errs.Field{Code: "header_forbidden", Message: "is set by Rubato"}
	}
	if strings.ContainsAny(cmp.Or(name, " "), " \x00") || strings.ContainsAny(value, "\r\n\x00") {
		return &errs.Field{Code: "header_invalid", Message: "must be a token and a value of one line"}
	}
	return nil
}

// numbers returns statistics of a deployment with few runs.
type numbers struct{}

func (numbers) Health(context.Context, [16]byte, [16]byte) ([]stats.Health, error) {
	return []stats.Health{
		{Window: time.Hour},
		{Window: 4 * time.Hour, Runs: 5, Succeeded: 3, Failed: 1, Skipped: 7, Latency: stats.Percentiles{P50: time.Millisecond, P95: time.Second, P99: time.Minute}},
	}, nil
}

func (numbers) Looks(_ context.Context, _, _ [16]byte, since time.Time, step time.Duration) (stats.Looks, error) {
	at := since.Add(2 * step)
	return stats.Looks{
		From:   since,
		At:     now,
		Prices: map[time.Time]float64{at.UTC(): 4.5},
		Groups: []stats.LookGroup{
			{At: at, Compared: true, Looks: tempo.Looks{Gap: 5 * time.Second, Changed: true, Count: 10}},
			{At: at, Compared: true, Looks: tempo.Looks{Gap: 5 * time.Second, Count: 30}},
			{At: at.Add(step), Looks: tempo.Looks{Count: 2}},
		},
	}, nil
}

func (numbers) Overview(context.Context, [16]byte) (stats.Overview, error) {
	return stats.Overview{At: now, Due: 2, OldestDue: time.Second, Running: 1, Statuses: map[string]int64{}}, nil
}

// fleet is the one worker that [numbers] lists.
type fleet struct{}

func (fleet) Drain(ctx context.Context, _ auditlog.Actor, worker [16]byte, drain bool) (stats.Worker, error) {
	list, _, err := numbers{}.Workers(ctx)
	if list[0].ID != worker {
		return stats.Worker{}, errs.New(errs.NotFound, "not_found", "there is no such worker")
	}
	if list[0].State = stats.Active; drain {
		list[0].State = stats.Draining
	}
	return list[0], err
}

func (fleet) Routes(context.Context, [16]byte, []string, []string) (stats.Routes, error) {
	return stats.Routes{At: now, Workers: []stats.Route{{ID: [16]byte{9}, Name: "w", State: stats.Active, Serves: true}}}, nil
}

func (numbers) Workers(context.Context) ([]stats.Worker, time.Time, error) {
	return []stats.Worker{{ID: [16]byte{9}, Name: "w", Version: "v", State: stats.Silent, Slots: 4, StartedAt: now, HeartbeatAt: now}}, now, nil
}
