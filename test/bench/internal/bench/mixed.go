package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/client"
)

// Mixed measures the isolation of loads that share a worker, and the cost of the other parts of the
// product.
type Mixed struct {
	Contest
	Load

	// Hanging is the number of endpoints that hang until their timeout.
	Hanging int
	// Backlog is the number of due endpoints of one tenant while another tenant has one.
	Backlog int
	// Registered is the number of endpoints of an idle installation.
	Registered int
	// InFlight is the number of requests in flight in its worker when memory is read.
	InFlight int
	// IdleFor is how long the idle installation is measured.
	IdleFor time.Duration
}

// MixedReport is the result of [Mixed].
type MixedReport struct {
	APIReport

	Isolation Isolation `json:"isolation"`
	Tenants   Tenants   `json:"tenants"`
	Idle      Idle      `json:"idle"`
	Memory    Memory    `json:"memory"`
}

// Isolation compares the lag of calls with and without hanging neighbours.
type Isolation struct {
	Hanging  int     `json:"hanging"`
	Without  Spread  `json:"withoutMs"`
	With     Spread  `json:"withMs"`
	RatioP50 float64 `json:"ratioP50"`
	RatioP99 float64 `json:"ratioP99"`
}

// Tenants measures fair sharing: the wait of a tenant's only due endpoint behind another tenant's
// backlog, and its cost for that tenant.
type Tenants struct {
	Backlog int     `json:"backlog"`
	LagMs   float64 `json:"lagMs"`
	// The throughput of the backlog: without another tenant, so that no ranking is needed; next to
	// one endpoint of another tenant; and next to an equal backlog, both counted, where every claim
	// is shared.
	AlonePerSecond  float64 `json:"alonePerSecond"`
	BesidePerSecond float64 `json:"besidePerSecond"`
	SharedPerSecond float64 `json:"sharedPerSecond"`
	Ratio           float64 `json:"ratio"`       // beside divided by alone
	SharedRatio     float64 `json:"sharedRatio"` // shared divided by alone
}

// Idle is the cost of an idle installation.
type Idle struct {
	Registered int     `json:"registered"`
	Percent    float64 `json:"percentOfCore"` // worker and Postgres
	Worker     float64 `json:"workerPercent"`
	Postgres   float64 `json:"postgresPercent"`
	// Transactions is the number of transactions per second that worker and API server begin while
	// idle.
	Transactions float64 `json:"transactionsPerSecond"`
	MemoryMiB    float64 `json:"memoryMiB"` // of the worker, at the end
}

// Memory is the peak memory of a worker.
type Memory struct {
	Registered int     `json:"registered"`
	InFlight   int     `json:"inFlight"`
	PeakMiB    float64 `json:"peakMiB"`
}

// Run measures each part in every round.
func (x Mixed) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, x.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	var rounds []MixedReport
	var measures []Measure
	for n := range x.Rounds {
		l.Progress.Say("round %d of %d", n+1, x.Rounds)
		m, alone, err := x.round(ctx, l)
		if err != nil {
			return Report{}, err
		}
		rounds, measures = append(rounds, m), append(measures, alone)
	}
	machine, err := l.machine(ctx)
	r := reportOf(map[string][]Measure{contenderRubato: measures}, machine)
	r.Command, r.Config = "mixed", x.config(l)
	r.Config["rate"], r.Config["seconds"] = x.Rate, x.For.Seconds()
	mixed := medianMixed(rounds)
	r.Mixed, r.PeakMemoryMiB = &mixed, mixed.Memory.PeakMiB
	return r, err
}

// round measures all parts once. It also returns the measure of the calls without neighbours.
func (x Mixed) round(ctx context.Context, l *environment) (out MixedReport, alone Measure, err error) {
	if alone, err = x.isolation(ctx, l, &out.Isolation); err != nil {
		return out, alone, fmt.Errorf("isolation: %w", err)
	}
	if out.Tenants, err = x.tenants(ctx, l); err != nil {
		return out, alone, fmt.Errorf("tenants: %w", err)
	}
	if out.APIReport, err = x.api(ctx, l); err != nil {
		return out, alone, err
	}
	if err = x.quiet(ctx, l, &out); err != nil {
		return out, alone, fmt.Errorf("an idle installation: %w", err)
	}
	return out, alone, nil
}

// The timing of hanging endpoints. They hold their slots nearly all the time, and their failures do
// not slow them down.
const (
	hangTimeout  = 5 * time.Second
	hangInterval = 6 * time.Second
)

// isolation measures calls alone, and then next to hanging endpoints.
func (x Mixed) isolation(ctx context.Context, l *environment, out *Isolation) (alone Measure, err error) {
	s := Steady{
		Rate:    x.Rate,
		For:     x.For,
		Every:   beyondHorizon,
		Workers: 1,
	}
	l.Progress.Say("isolation: %d calls a second alone", x.Rate)
	if alone, err = l.steady(ctx, s); err != nil {
		return alone, err
	}
	l.Progress.Say("  lag p50 %.2f ms, p99 %.2f ms; now with %d that hang", alone.StartLagMs.P50, alone.StartLagMs.P99, x.Hanging)
	s.extra = func(ctx context.Context, in *installation, w workload) error {
		return in.hang(ctx, x.Hanging, w.Due.Add(-hangTimeout))
	}
	beside, err := l.steady(ctx, s)
	if err != nil {
		return alone, err
	}
	l.Progress.Say("  lag p50 %.2f ms, p99 %.2f ms", beside.StartLagMs.P50, beside.StartLagMs.P99)
	*out = Isolation{
		Hanging:  x.Hanging,
		Without:  alone.StartLagMs,
		With:     beside.StartLagMs,
		RatioP50: ratio(beside.StartLagMs.P50, alone.StartLagMs.P50),
		RatioP99: ratio(beside.StartLagMs.P99, alone.StartLagMs.P99),
	}
	return alone, nil
}

// ratio returns a/b; 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// hang registers endpoints that hang until their timeout, with a first due time.
func (in *installation) hang(ctx context.Context, n int, first time.Time) error {
	r, err := in.registrar(registerConns)
	if err != nil {
		return err
	}
	_, err = r.load(ctx, n, func(i int) client.EndpointSpec {
		spec := in.db.lab.endpoint(groupHang, i, hangInterval, first)
		spec.TimeoutMs, spec.MaxIntervalMs = new(hangTimeout.Milliseconds()), new(hangInterval.Milliseconds())
		return spec
	})
	return err
}

// tenants measures a burst of one tenant: alone, with one endpoint of another tenant, and with an
// equal burst of another tenant.
func (x Mixed) tenants(ctx context.Context, l *environment) (Tenants, error) {
	l.Progress.Say("tenants: %d due endpoints of one", x.Backlog)
	out := Tenants{Backlog: x.Backlog}
	alone, err := l.burst(ctx, x.Backlog, 1)
	if err != nil {
		return out, err
	}
	l.Progress.Say("  %.0f runs/s; now beside one of another", alone.RunsPerSecond)
	beside, err := l.burstBeside(ctx, start{endpoints: x.Backlog, workers: 1}, another(1, func(list arrivals) { out.LagMs = milliseconds(list[0].lag()) }))
	if err != nil {
		return out, err
	}
	l.Progress.Say("  %.0f runs/s, the one %.0f ms late; now beside as many of another", beside.RunsPerSecond, out.LagMs)
	var theirs arrivals
	shared, err := l.burstBeside(ctx, start{endpoints: x.Backlog, workers: 1}, another(x.Backlog, func(list arrivals) { theirs = list }))
	if err != nil {
		return out, err
	}
	out.AlonePerSecond, out.BesidePerSecond, out.SharedPerSecond = alone.RunsPerSecond, beside.RunsPerSecond, shared.RunsPerSecond
	out.Ratio, out.SharedRatio = ratio(out.BesidePerSecond, out.AlonePerSecond), ratio(out.SharedPerSecond, out.AlonePerSecond)
	if out.LagMs == 0 || len(theirs) == 0 {
		return out, errors.New("the endpoints of the other tenant were never called")
	}
	return out, nil
}

// another returns a hook that adds n endpoints of a second tenant to a burst. seen gets their
// arrivals, if set.
func another(n int, seen func(arrivals)) sideLoad {
	return sideLoad{
		extra: func(ctx context.Context, in *installation, w workload) error {
			return in.registerForAnother(ctx, n, w.Due)
		},
		seen: func(list arrivals) {
			var theirs arrivals
			for _, a := range list {
				if a.Group == groupOther {
					theirs = append(theirs, a)
				}
			}
			if len(theirs) > 0 {
				seen(theirs)
			}
		},
	}
}

// registerForAnother creates a second tenant and registers its endpoints.
func (in *installation) registerForAnother(ctx context.Context, n int, due time.Time) error {
	const key = "a-key-of-another-tenant"
	_, err := in.db.pool.Exec(ctx, `
		WITH t AS (INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'another') RETURNING id)
		INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes)
		SELECT gen_random_uuid(), id, 'bench', 'a-key-of', sha256(convert_to($1, 'UTF8')), ARRAY['admin'] FROM t`, key)
	if err != nil {
		return fmt.Errorf("making another tenant: %w", err)
	}
	r, err := newRegistrar(in.api.news.Serves.API, key, registerConns, in.db.lab.Progress)
	if err != nil {
		return err
	}
	_, err = r.register(ctx, n, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, i, once, due) })
	return err
}

// medianMixed returns the medians over the rounds.
func medianMixed(rounds []MixedReport) MixedReport {
	spread := func(of func(MixedReport) Spread) Spread {
		list := make([]Spread, len(rounds))
		for i, r := range rounds {
			list[i] = of(r)
		}
		return medianSpread(list)
	}
	number := func(of func(MixedReport) float64) float64 { return median(rounds, of) }
	out := rounds[0] // keeps the fields that are equal in every round
	out.Isolation.Without = spread(func(r MixedReport) Spread { return r.Isolation.Without })
	out.Isolation.With = spread(func(r MixedReport) Spread { return r.Isolation.With })
	out.Isolation.RatioP50 = number(func(r MixedReport) float64 { return r.Isolation.RatioP50 })
	out.Isolation.RatioP99 = number(func(r MixedReport) float64 { return r.Isolation.RatioP99 })
	out.Tenants = medianTenants(rounds)
	api := make([]APIReport, len(rounds))
	for i, r := range rounds {
		api[i] = r.APIReport
	}
	out.APIReport = medianAPI(api)
	out.Idle.Percent = number(func(r MixedReport) float64 { return r.Idle.Percent })
	out.Idle.Worker = number(func(r MixedReport) float64 { return r.Idle.Worker })
	out.Idle.Postgres = number(func(r MixedReport) float64 { return r.Idle.Postgres })
	out.Idle.Transactions = number(func(r MixedReport) float64 { return r.Idle.Transactions })
	out.Idle.MemoryMiB = number(func(r MixedReport) float64 { return r.Idle.MemoryMiB })
	out.Memory.PeakMiB = number(func(r MixedReport) float64 { return r.Memory.PeakMiB })
	return out
}

// medianTenants returns the medians over the rounds.
func medianTenants(rounds []MixedReport) Tenants {
	number := func(of func(Tenants) float64) float64 {
		return median(rounds, func(r MixedReport) float64 { return of(r.Tenants) })
	}
	return Tenants{
		Backlog: rounds[0].Tenants.Backlog, LagMs: number(func(t Tenants) float64 { return t.LagMs }),
		AlonePerSecond:  number(func(t Tenants) float64 { return t.AlonePerSecond }),
		BesidePerSecond: number(func(t Tenants) float64 { return t.BesidePerSecond }),
		SharedPerSecond: number(func(t Tenants) float64 { return t.SharedPerSecond }),
		Ratio:           number(func(t Tenants) float64 { return t.Ratio }), SharedRatio: number(func(t Tenants) float64 { return t.SharedRatio }),
	}
}

// tables returns the figures of one or two numbers.
func (m MixedReport) tables() []Table {
	facts := append([][]string{
		{"another tenant's endpoint beside a backlog", fmt.Sprint(m.Tenants.Backlog), figure(m.Tenants.LagMs) + " ms late"},
		{"speed of a backlog beside another tenant's endpoint, against alone", fmt.Sprint(m.Tenants.Backlog), fmt.Sprintf("%.2fx of %.0f/s", m.Tenants.Ratio, m.Tenants.AlonePerSecond)},
		{"speed of a backlog that two tenants share, against alone", fmt.Sprint(m.Tenants.Backlog), fmt.Sprintf("%.2fx", m.Tenants.SharedRatio)},
		{"idle, endpoints registered", fmt.Sprint(m.Idle.Registered), fmt.Sprintf("%.2f %% of a core, %.1f transactions/s", m.Idle.Percent, m.Idle.Transactions)},
		{"memory of a worker, in flight", fmt.Sprint(m.Memory.InFlight), fmt.Sprintf("%.1f MiB", m.Memory.PeakMiB)},
		{"lag beside hanging endpoints, p50 and p99", fmt.Sprint(m.Isolation.Hanging), fmt.Sprintf("%.2fx, %.2fx", m.Isolation.RatioP50, m.Isolation.RatioP99)},
	}, m.facts()...)
	spreads := m.spreads()
	spreads["call, alone"], spreads["call, beside hanging ones"] = m.Isolation.Without, m.Isolation.With
	return []Table{
		spreadTable("how long it takes, ms", spreads),
		{
			Title:  "and",
			Header: []string{"WHAT", "WITH", "FIGURE"},
			Rows:   facts,
		},
	}
}
