package endpoints_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/governor"
)

// start is the start of the tests. It is a Tuesday.
var start = time.Date(2030, time.January, 1, 12, 0, 0, 0, time.UTC)

var actor = endpoints.Actor{TenantID: [16]byte{1}, Name: "tester"}

// memory is a store that holds endpoints and the ledger in memory, with a clock of its own.
type memory struct {
	now    time.Time
	byID   map[endpoints.ID]*endpoints.Endpoint
	ledger []endpoints.Recorded
	queue  []endpoints.OneOff // of one endpoint under test
	keys   map[string]endpoints.OneOff
	past   endpoints.PastRequest // of every run
	noise  []endpoints.Finding
}

// sync stores the effect of a change or a finish on the one-off runs, and reads the input of the
// next one.
func (m *memory) sync(s *endpoints.State) {
	q := &s.OneOffs
	if q.Withdrawn {
		m.queue = nil
	}
	if q.Added != nil {
		m.queue = append(m.queue, *q.Added)
		if q.Added.Key != nil {
			m.keys[*q.Added.Key] = *q.Added
		}
	}
	if q.Retried != nil {
		m.queue[m.at(q.Retried.Slot)] = *q.Retried
	}
	if q.Ended != nil {
		m.queue = slices.DeleteFunc(m.queue, func(o endpoints.OneOff) bool { return o.Slot.Equal(q.Ended.Slot) })
	}
	*q = endpoints.OneOffs{}
	for _, item := range m.queue {
		if item.Slot.After(q.LastSlot) {
			q.LastSlot = item.Slot
		}
		if s.Running != nil && s.Running.Slot.Equal(item.Slot) {
			q.InFlight = &item
			continue
		}
		q.Waiting++
		if q.Next == nil || m.before(item, *q.Next) {
			q.Next = &item
		}
	}
}

func (m *memory) at(slot time.Time) int {
	return slices.IndexFunc(m.queue, func(o endpoints.OneOff) bool { return o.Slot.Equal(slot) })
}

func (m *memory) before(a, b endpoints.OneOff) bool {
	ready := func(o endpoints.OneOff) time.Time {
		if o.At.After(m.now) {
			return o.At
		}
		return m.now
	}
	return cmp.Or(ready(a).Compare(ready(b)), int(b.Priority-a.Priority), a.Slot.Compare(b.Slot)) < 0
}

func (m *memory) OneOffKey(_ context.Context, _ [16]byte, _ endpoints.ID, key string) (slot time.Time, fingerprint []byte, err error) {
	return m.keys[key].Slot, m.keys[key].Fingerprint, nil
}

func (m *memory) PastRequest(context.Context, [16]byte, endpoints.RecordedRun) (endpoints.PastRequest, error) {
	return m.past, nil
}

// begin starts the planned run.
func (m *memory) begin(e *endpoints.Endpoint) {
	due := e.State.Due
	e.State.Running = &endpoints.Running{Slot: due.Slot, Attempt: due.Attempt, StartedAt: m.now}
	m.sync(&e.State)
}

func (m *memory) Create(_ context.Context, _ auditlog.Act, create func(time.Time) (*endpoints.Endpoint, endpoints.Recorded, error)) error {
	e, planned, err := create(m.now)
	if err != nil {
		return err
	}
	m.byID[e.ID] = e
	m.ledger = append(m.ledger, planned)
	return nil
}

func (m *memory) Get(_ context.Context, tenant [16]byte, id endpoints.ID) (*endpoints.Endpoint, time.Time, error) {
	e := m.byID[id]
	if e == nil || e.TenantID != tenant {
		return nil, m.now, errs.New(errs.NotFound, "not_found", "no such endpoint")
	}
	found := *e
	return &found, m.now, nil
}

func (m *memory) List(context.Context, endpoints.Filter) ([]*endpoints.Endpoint, time.Time, error) {
	return nil, m.now, nil
}

func (m *memory) Change(
	ctx context.Context, act auditlog.Act, id endpoints.ID, change func(*endpoints.Endpoint, time.Time) (*endpoints.Recorded, error),
) (*endpoints.Endpoint, error) {
	e, _, err := m.Get(ctx, act.By.TenantID, id)
	if err != nil {
		return nil, err
	}
	planned, err := change(e, m.now)
	if err != nil {
		return nil, err
	}
	m.byID[id] = e
	m.sync(&e.State)
	if v := e.Judged; v != nil {
		i := slices.IndexFunc(m.noise, func(f endpoints.Finding) bool { return f.Path == v.Path })
		m.noise[i].RejectedAt, m.noise[i].RejectedBy = time.Time{}, ""
		if v.State == endpoints.NoiseRejected {
			m.noise[i].RejectedAt, m.noise[i].RejectedBy = m.now, act.By.Name
		}
	}
	if planned != nil {
		m.ledger = append(m.ledger, *planned)
	}
	return e, nil
}

func (m *memory) Noise(context.Context, [16]byte, endpoints.ID) ([]endpoints.Finding, error) {
	return m.noise, nil
}

func (m *memory) LastDecision(context.Context, [16]byte, endpoints.ID) (endpoints.Recorded, error) {
	return m.ledger[len(m.ledger)-1], nil
}

// targets refuses URLs that contain "forbidden", and some headers.
type targets struct{}

func (targets) CheckURL(url string) *errs.Field {
	if strings.Contains(url, "forbidden") {
		return &errs.Field{Code: "url_forbidden", Message: "may not be called"}
	}
	return nil
}

func (targets) CheckHeader(name, _ string) *errs.Field {
	if strings.EqualFold(name, "host") {
		return &errs.Field{Code: "header_forbidden", Message: "is ours"}
	}
	return nil
}

// bundle is a service over memory with one endpoint.
type bundle struct {
	*endpoints.Service
	memory *memory
	id     endpoints.ID
}

// valid returns a spec without errors and warnings.
func valid() endpoints.Spec {
	s := endpoints.Defaults()
	s.Name, s.URL, s.BaselineInterval = "probe", "https://target.example/", time.Minute
	return s.Normalize()
}

func setup(t *testing.T, edit func(*endpoints.Spec)) *bundle {
	t.Helper()
	m := &memory{now: start, byID: map[endpoints.ID]*endpoints.Endpoint{}, keys: map[string]endpoints.OneOff{}}
	b := &bundle{Service: endpoints.NewService(m, targets{}), memory: m}
	spec := valid()
	if edit != nil {
		edit(&spec)
	}
	e, _, err := b.Register(t.Context(), actor, spec)
	require.NoError(t, err)
	b.id = e.ID
	return b
}

// endpoint returns the stored endpoint.
func (b *bundle) endpoint() *endpoints.Endpoint { return b.memory.byID[b.id] }

// pass advances the clock.
func (b *bundle) pass(d time.Duration) time.Time {
	b.memory.now = b.memory.now.Add(d)
	return b.memory.now
}

// run starts the planned run at its time and finishes it at once, changed by edit.
func (b *bundle) run(t *testing.T, edit func(*endpoints.Finished)) endpoints.Recorded {
	t.Helper()
	e := b.endpoint()
	due := e.State.Due
	if due.At.After(b.memory.now) {
		b.memory.now = due.At
	}
	f := endpoints.Finished{
		Slot: due.Slot, Attempt: due.Attempt, InfraAttempt: due.InfraAttempt, Source: due.Source, StartedAt: b.memory.now, FinishedAt: b.memory.now,
		Status: "succeeded", Verdict: endpoints.Success,
	}
	if edit != nil {
		edit(&f)
	}
	if due.Source == governor.SourceManual && e.State.Running == nil {
		b.memory.begin(e)
	}
	decided, err := e.AfterRun(b.memory.now, f)
	require.NoError(t, err)
	b.memory.sync(&e.State)
	return decided
}

// failed makes a run a failure of the target.
func failed(f *endpoints.Finished) {
	f.Status, f.Verdict, f.Retryable, f.MaybeSent = "failed", endpoints.Failure, true, true
}
