package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/simulate"
)

// Tempo runs a scenario of `rubato simulate` in real time: endpoints of the product call targets
// whose content changes as in the simulation.
type Tempo struct {
	Host

	Scenario simulate.Scenario
	For      time.Duration
	Seed     uint64
	Workers  int
	// Seeds is the number of repetitions of the simulation beside it.
	Seeds int
}

// TempoRow is an endpoint under a policy, measured at its target and simulated.
type TempoRow struct {
	simulate.Row

	// Simulated is the mean of the simulation over as much time.
	Simulated simulate.Row `json:"simulated"`
}

// tempoLead is the time from the registrations to the first change.
const tempoLead = 3 * time.Second

// errSharedBudgets is the error of a scenario that does not fit into one tenant.
var errSharedBudgets = errors.New("a scenario with shared budgets cannot run in real time, because the policies of one tenant would share them")

// Run measures once. All policies run beside each other, on targets of their own with equal
// content.
func (x Tempo) Run(ctx context.Context) (_ Report, err error) {
	if len(x.Scenario.Budgets) > 0 {
		return Report{}, errSharedBudgets
	}
	l, err := openLab(ctx, x.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	rows, err := x.live(ctx, l)
	if err != nil {
		return Report{}, err
	}
	simulated, err := x.Scenario.Run(ctx, simulate.Options{
		Length: x.For,
		Seeds:  x.Seeds,
	})
	if err != nil {
		return Report{}, err
	}
	r := Report{Command: "tempo"}
	r.Tempo = joined(rows, simulated)
	r.Config = map[string]any{"seconds": x.For.Seconds(), "workers": x.Workers, "seed": x.Seed, "simulatedSeeds": x.Seeds}
	r.Machine, err = l.machine(ctx)
	return r, err
}

// joined joins the rows of the product and of the simulation.
func joined(rows, simulated []simulate.Row) []TempoRow {
	list := make([]TempoRow, len(rows))
	for i, row := range rows {
		list[i].Row = row
		for _, s := range simulated {
			if s.Name == row.Name && s.Policy == row.Policy {
				list[i].Simulated = s
			}
		}
	}
	return list
}

// live runs the product against the targets.
func (x Tempo) live(ctx context.Context, l *environment) (rows []simulate.Row, err error) {
	in, err := l.install(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	planner, err := l.start(ctx, rolePlanner, nil, in.environ)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, planner.stop()) }()
	if err := in.startWorkers(ctx, max(1, x.Workers)); err != nil {
		return nil, err
	}
	s := stage{begin: time.Now().Add(tempoLead)}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := x.set(ctx, in, &s); err != nil {
		return nil, err
	}
	for end := s.begin.Add(x.For); time.Now().Before(end); {
		l.Progress.bar("seconds", int(x.For.Seconds()-time.Until(end).Seconds()), int(x.For.Seconds()))
		if !await(ctx, earlier(end, time.Now().Add(time.Second))) {
			return nil, ctx.Err()
		}
		if err := errors.Join(in.workers[0].alive(), planner.alive()); err != nil {
			return nil, err
		}
	}
	for _, target := range s.targets {
		row, err := target.Row()
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// stage holds the targets of a scenario. Each has a port of its own, because a host that answers
// 429 or is down must not slow the others.
type stage struct {
	begin   time.Time
	targets []*simulate.Served
	servers []*http.Server
}

// set starts the targets, and registers their endpoints.
func (x Tempo) set(ctx context.Context, in *installation, s *stage) error {
	r, err := in.registrar(1)
	if err != nil {
		return err
	}
	for i := range x.Scenario.Endpoints {
		e := &x.Scenario.Endpoints[i]
		for p := range e.Policies {
			policy := &e.Policies[p]
			target := e.Serve(policy, s.begin, simulate.ServeOptions{
				Length: x.For,
				Seed:   x.Seed,
			})
			url, err := s.serve(ctx, target)
			if err != nil {
				return err
			}
			if err := r.enact(ctx, policy, url, s.begin); err != nil {
				return fmt.Errorf("registering %s under %s: %w", e.Name, policy.Name, err)
			}
		}
	}
	return nil
}

// serve starts a target on a port of its own.
func (s *stage) serve(ctx context.Context, target *simulate.Served) (url string, err error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", loopback)
	if err != nil {
		return "", fmt.Errorf("opening the port of a target: %w", err)
	}
	server := &http.Server{
		Handler:           target,
		ReadHeaderTimeout: apiTimeout,
	}
	go func() { _ = server.Serve(listener) }() // It ends with close.
	s.targets, s.servers = append(s.targets, target), append(s.servers, server)
	return "http://" + listener.Addr().String() + "/", nil
}

func (s *stage) close() error {
	errs := make([]error, len(s.servers))
	for i, server := range s.servers {
		errs[i] = server.Close()
	}
	return errors.Join(errs...)
}

// enact registers an endpoint with the configuration of a policy, on a target of its own.
func (r *registrar) enact(ctx context.Context, p *simulate.Policy, url string, begin time.Time) error {
	spec := p.Spec
	spec.URL, spec.StartAt = url, begin.UTC().Truncate(time.Millisecond)
	spec.Name, spec.Key = spec.Name+" "+p.Name, ""
	text, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	res, err := r.api.CreateEndpointWithBody(ctx, "application/json", strings.NewReader(string(text))) //nolint:bodyclose // readAnswer closes it.
	if err != nil {
		return err
	}
	var created client.Endpoint
	return readAnswer(res, &created)
}

// tempoTable shows the product beside its simulation.
func tempoTable(rows []TempoRow) Table {
	t := Table{
		Title:  "tempo: the product, and its simulation over as much time (SIM)",
		Header: []string{"NAME", "POLICY", "POLLS", "SIM", "REFUSALS", "SIM", "CHANGES", "MEAN DELAY ms", "SIM", "VS BEST FIXED", "SIM"},
	}
	ratio := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return figure(*v)
	}
	for _, r := range rows {
		t.Rows = append(t.Rows, []string{
			r.Name, r.Policy, fmt.Sprint(r.Polls), fmt.Sprint(r.Simulated.Polls), fmt.Sprint(r.Refusals), fmt.Sprint(r.Simulated.Refusals),
			fmt.Sprint(r.Changes), fmt.Sprintf("%.0f", r.MeanDelayMs), fmt.Sprintf("%.0f", r.Simulated.MeanDelayMs),
			ratio(r.RatioToBestFixed), ratio(r.Simulated.RatioToBestFixed),
		})
	}
	return t
}
