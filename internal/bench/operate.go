package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rubato/client"
)

// Operations tells how fast the API answers what is done to endpoints while a worker makes calls.
type Operations struct {
	PerSecond int    `json:"perSecond"`
	RunMs     Spread `json:"runMs"`
	PauseMs   Spread `json:"pauseMs"`
	ResumeMs  Spread `json:"resumeMs"`
	HintMs    Spread `json:"hintMs"`
	LagMs     Spread `json:"lagMs"` // of the calls of the worker meanwhile
}

// operated is how many endpoints are operated on in turn: enough that two operations of one endpoint never meet.
const operated = 200

// operations does things to endpoints at a rate, beside calls at another.
func (x Mixed) operations(ctx context.Context, l *lab) (Operations, error) {
	l.Progress.Say("operations: %d a second beside %d calls a second", x.Operate, x.Rate)
	var o *operator
	s := Steady{Rate: x.Rate, For: x.For, Every: beyondHorizon, Workers: 1}
	s.extra = func(ctx context.Context, in *installation, _ workload) (err error) {
		o, err = in.operator(ctx, x.Operate)
		return err
	}
	s.during = func(ctx context.Context) error { return o.run(ctx, int(float64(x.Operate)*x.For.Seconds())) }
	m, err := l.steady(ctx, s)
	if err != nil {
		return Operations{}, err
	}
	out := o.report()
	out.LagMs = m.StartLagMs
	l.Progress.Say("  run p99 %.1f ms, pause p99 %.1f ms, hint p99 %.1f ms", out.RunMs.P99, out.PauseMs.P99, out.HintMs.P99)
	return out, nil
}

// operator does things to endpoints over the API.
type operator struct {
	api  *client.Client
	ids  []string
	rate int // a second

	mu   sync.Mutex
	took [4][]time.Duration // by what was done
}

// operator registers endpoints that do nothing by themselves.
func (in *installation) operator(ctx context.Context, rate int) (*operator, error) {
	r, err := in.registrar(registerConns)
	if err != nil {
		return nil, err
	}
	far := time.Now().Add(once)
	made, err := r.register(ctx, operated, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, i, once, far) })
	return &operator{api: r.api, ids: made.ids, rate: rate}, err
}

// run does n things, each at its time, however long the one before takes.
func (o *operator) run(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	from := time.Now()
	for i := range n {
		if !await(ctx, from.Add(time.Duration(i)*time.Second/time.Duration(o.rate))) {
			break
		}
		group.Go(func() error { return o.once(ctx, i) })
	}
	return group.Wait()
}

// once does one thing: a run, a pause, a resume and a hint of each endpoint in turn.
func (o *operator) once(ctx context.Context, i int) error {
	what, id := i%len(o.took), o.ids[i/len(o.took)%len(o.ids)]
	sent := time.Now()
	var res *http.Response
	var err error
	switch what {
	case 0:
		res, err = o.api.RunEndpoint(ctx, id) //nolint:bodyclose // readAnswer closes it.
	case 1:
		res, err = o.api.PauseEndpoint(ctx, id, client.PauseRequest{}) //nolint:bodyclose // readAnswer closes it.
	case 2:
		res, err = o.api.ResumeEndpoint(ctx, id) //nolint:bodyclose // readAnswer closes it.
	default:
		res, err = o.api.PutIntervalHint(ctx, id, client.IntervalHintRequest{IntervalMs: once.Milliseconds() / 2, TTLMs: new(time.Minute.Milliseconds())}) //nolint:bodyclose // readAnswer closes it.
	}
	if err == nil {
		err = readAnswer(res, new(struct{}))
	}
	if err != nil {
		return fmt.Errorf("operation %d: %w", i+1, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.took[what] = append(o.took[what], time.Since(sent))
	return nil
}

func (o *operator) report() Operations {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Operations{
		PerSecond: o.rate, RunMs: spreadOf(o.took[0]), PauseMs: spreadOf(o.took[1]), ResumeMs: spreadOf(o.took[2]), HintMs: spreadOf(o.took[3]),
	}
}

// medianOperations returns the median of each number.
func medianOperations(rounds []MixedReport) Operations {
	spread := func(of func(Operations) Spread) Spread {
		list := make([]Spread, len(rounds))
		for i, r := range rounds {
			list[i] = of(r.Operations)
		}
		return medianSpread(list)
	}
	return Operations{
		PerSecond: rounds[0].Operations.PerSecond,
		RunMs:     spread(func(o Operations) Spread { return o.RunMs }), PauseMs: spread(func(o Operations) Spread { return o.PauseMs }),
		ResumeMs: spread(func(o Operations) Spread { return o.ResumeMs }), HintMs: spread(func(o Operations) Spread { return o.HintMs }),
		LagMs: spread(func(o Operations) Spread { return o.LagMs }),
	}
}
