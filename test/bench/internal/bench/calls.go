package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rubato/client"
)

// Calls measures one-time calls: how many the API takes, and how soon their requests are sent. API
// server, worker, Postgres, the sink and the senders share the machine.
type Calls struct {
	Contest

	// Number is the number of calls to send as fast as the API takes them.
	Number int
	// Conns is the number of connections that send them.
	Conns int
	// Rate is the number of calls per second of the second part, in which the worker keeps up.
	Rate int
	// For is how long the second part takes.
	For time.Duration
}

// CallsReport is the result of [Calls].
type CallsReport struct {
	Conns int `json:"connections"`
	// PerSecond is the number of calls that the API stored. They are due in an hour, so the worker
	// sends nothing meanwhile.
	PerSecond float64 `json:"perSecond"`
	// StoredMs is the time to the whole answer of the API meanwhile.
	StoredMs Spread `json:"storedMs"`
	// SentPerSecond is the number of requests at the sink for calls that are due at once, from the
	// first call to the last request.
	SentPerSecond float64 `json:"sentPerSecond"`
	// Rate is the number of calls per second of the second part, for the spreads below.
	Rate         int    `json:"rate"`
	RateStoredMs Spread `json:"rateStoredMs"`
	// RequestMs is the time from the call to its request at the sink.
	RequestMs Spread `json:"requestMs"`
	// Unsent is the number of stored calls without a request at the sink.
	Unsent int `json:"unsent"`
}

// Run measures both parts in every round.
func (x Calls) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, x.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	var rounds []CallsReport
	for n := range x.Rounds {
		l.Progress.Say("round %d of %d", n+1, x.Rounds)
		round, err := x.round(ctx, l)
		if err != nil {
			return Report{}, err
		}
		rounds = append(rounds, round)
	}
	machine, err := l.machine(ctx)
	r := reportOf(nil, machine)
	r.Command, r.Config = "calls", x.config(l)
	r.Config["number"], r.Config["seconds"] = x.Number, x.For.Seconds()
	found := medianCalls(rounds)
	r.Calls = &found
	return r, err
}

func (x Calls) round(ctx context.Context, l *environment) (out CallsReport, err error) {
	in, err := l.install(ctx, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	if err := in.startWorkers(ctx, 1); err != nil {
		return out, err
	}
	r, err := in.registrar(x.Conns)
	if err != nil {
		return out, err
	}
	warm := callLoad{
		registrar: r,
		number:    warmups(x.Number),
		conns:     x.Conns,
	}
	if err := warm.run(ctx, l); err != nil {
		return out, err
	}
	out = CallsReport{Conns: x.Conns, Rate: x.Rate}
	l.Progress.Say("calls: %d over %d connections", x.Number, x.Conns)
	later := callLoad{
		registrar: r,
		number:    x.Number,
		conns:     x.Conns,
		delay:     new(time.Hour.Milliseconds()),
	}
	if err := later.run(ctx, l); err != nil {
		return out, err
	}
	out.PerSecond, out.StoredMs = float64(x.Number)/later.span.Seconds(), spreadOf(later.stored)
	flood := callLoad{
		registrar: r,
		number:    x.Number,
		conns:     x.Conns,
	}
	if err := flood.run(ctx, l); err != nil {
		return out, err
	}
	out.SentPerSecond, out.Unsent = float64(x.Number)/flood.last.Sub(flood.began).Seconds(), flood.unsent
	if err := in.db.settle(ctx); err != nil {
		return out, err
	}
	l.Progress.Say("calls: %d a second for %s", x.Rate, x.For)
	paced := callLoad{
		registrar: r,
		number:    int(float64(x.Rate) * x.For.Seconds()),
		conns:     x.Conns,
		every:     time.Second / time.Duration(x.Rate),
	}
	if err := paced.run(ctx, l); err != nil {
		return out, err
	}
	out.RateStoredMs, out.RequestMs = spreadOf(paced.stored), spreadOf(paced.toRequest)
	out.Unsent += paced.unsent
	return out, nil
}

// callLoad sends calls and finds their requests at the sink.
type callLoad struct {
	*registrar

	number int
	conns  int
	// every is the time from one call to the next; 0: as fast as the API takes them.
	every time.Duration
	// delay is the delayMs of the calls; nil: they are due at once.
	delay *int64

	began             time.Time
	span              time.Duration // until the API stored the last call
	last              time.Time     // the last request at the sink
	stored, toRequest []time.Duration
	unsent            int
}

// run sends the calls and waits for their requests, if they are due.
func (c *callLoad) run(ctx context.Context, l *environment) error {
	if _, err := l.sink.take(ctx); err != nil {
		return err
	}
	sent := make([]time.Time, c.number)
	c.stored = make([]time.Duration, c.number)
	c.began = time.Now()
	if err := c.send(ctx, l, sent); err != nil {
		return err
	}
	c.span = time.Since(c.began)
	if c.delay != nil {
		return nil
	}
	err := poll(ctx, sentPatience, func() (bool, error) {
		n, err := l.sink.count(ctx)
		return n >= c.number, err
	})
	if err != nil && !errors.Is(err, errImpatient) {
		return err
	}
	came, err := l.sink.take(ctx)
	if err != nil {
		return err
	}
	c.found(came, sent)
	return nil
}

// sentPatience bounds the wait for the last request.
const sentPatience = 2 * time.Minute

// send sends the calls over the connections, and notes when.
func (c *callLoad) send(ctx context.Context, l *environment, sent []time.Time) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(c.conns, c.number) {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < c.number; i = int(next.Add(1)) - 1 {
				if !await(ctx, c.began.Add(time.Duration(i)*c.every)) {
					return ctx.Err()
				}
				sent[i] = time.Now()
				res, err := c.api.SendCall(ctx, client.CallRequest{URL: l.sink.target(groupPlain, i), DelayMs: c.delay}) //nolint:bodyclose // readAnswer closes it.
				if err == nil {
					err = readAnswer(res, new(struct{}))
				}
				if err != nil {
					return fmt.Errorf("sending call %d of %d: %w", i+1, c.number, err)
				}
				c.stored[i] = time.Since(sent[i])
			}
			return nil
		})
	}
	return group.Wait()
}

// found relates the requests at the sink to the calls.
func (c *callLoad) found(came []arrival, sent []time.Time) {
	seen := make(map[uint32]bool, len(came))
	for _, a := range came {
		at := time.Unix(0, a.At)
		if seen[a.N] || int(a.N) >= len(sent) {
			continue
		}
		seen[a.N] = true
		c.toRequest = append(c.toRequest, at.Sub(sent[a.N]))
		if at.After(c.last) {
			c.last = at
		}
	}
	c.unsent = c.number - len(c.toRequest)
}

// medianCalls returns the medians over the rounds. Unsent calls are summed, because one is a fault.
func medianCalls(rounds []CallsReport) CallsReport {
	out := rounds[0]
	stored, rated, requests := make([]Spread, len(rounds)), make([]Spread, len(rounds)), make([]Spread, len(rounds))
	out.Unsent = 0
	for i, r := range rounds {
		stored[i], rated[i], requests[i] = r.StoredMs, r.RateStoredMs, r.RequestMs
		out.Unsent += r.Unsent
	}
	out.StoredMs, out.RateStoredMs, out.RequestMs = medianSpread(stored), medianSpread(rated), medianSpread(requests)
	out.PerSecond = median(rounds, func(r CallsReport) float64 { return r.PerSecond })
	out.SentPerSecond = median(rounds, func(r CallsReport) float64 { return r.SentPerSecond })
	return out
}

func (c CallsReport) tables() []Table {
	return []Table{
		{
			Title:  "calls",
			Header: []string{"WHAT", "WITH", "FIGURE"},
			Rows: [][]string{
				{"due in an hour: stored by the API", fmt.Sprintf("%d connections", c.Conns), fmt.Sprintf("%.0f/s", c.PerSecond)},
				{"due at once: requests at the sink", "from the first call to the last request", fmt.Sprintf("%.0f/s", c.SentPerSecond)},
				{"stored calls without a request", "", fmt.Sprint(c.Unsent)},
			},
		},
		spreadTable("how long it takes, ms", map[string]Spread{
			"call due in an hour, as fast as the API takes them": c.StoredMs,
			fmt.Sprintf("call, at %d/s", c.Rate):                 c.RateStoredMs,
			fmt.Sprintf("call, at %d/s, to the request", c.Rate): c.RequestMs,
		}),
	}
}
