package bench

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rubato/client"
)

// Operations is the latency of API operations on endpoints while a worker makes calls.
type Operations struct {
	PerSecond int    `json:"perSecond"`
	RunMs     Spread `json:"runMs"`
	PauseMs   Spread `json:"pauseMs"`
	ResumeMs  Spread `json:"resumeMs"`
	HintMs    Spread `json:"hintMs"`
	RunSentMs Spread `json:"runSentMs"` // from the API call to the request at the sink
	LagMs     Spread `json:"lagMs"`     // of the worker's calls meanwhile
	Asked     int    `json:"asked"`     // planned calls
	Left      int    `json:"left"`      // calls that were skipped, because too many earlier ones were unanswered
	Refused   int    `json:"refused"`   // answered by an error or a timeout
	Unsent    int    `json:"unsent"`    // accepted runs without a request at the sink
}

const (
	// operated is the number of endpoints that are operated on in turn. It is large enough that
	// operations on one endpoint never overlap.
	operated = 200
	// maxUnanswered bounds the calls in flight. Without it they would grow without end if the API
	// is slower than the rate; further calls are skipped and counted.
	maxUnanswered = 256
	// operateTimeout bounds one call. It exceeds every limit after which the API answers with an
	// error.
	operateTimeout = 25 * time.Second
)

// operations operates on endpoints at a rate, next to calls at another rate.
func (x Load) operations(ctx context.Context, l *environment) (Operations, error) {
	l.Progress.Say("operations: %d a second beside %d calls a second", x.Operate, x.Rate)
	var o *operator
	s := Steady{
		Rate:    x.Rate,
		For:     x.For,
		Every:   beyondHorizon,
		Workers: 1,
	}
	s.extra = func(ctx context.Context, in *installation, _ workload) (err error) {
		o, err = in.operator(ctx, x.Operate)
		return err
	}
	s.seen = func(list arrivals) { o.sent(list) }
	s.during = func(ctx context.Context) error { return o.run(ctx, int(float64(x.Operate)*x.For.Seconds())) }
	m, err := l.steady(ctx, s)
	if err != nil {
		return Operations{}, err
	}
	out := o.report()
	out.LagMs = m.StartLagMs
	l.Progress.Say("  run p99 %.1f ms, pause p99 %.1f ms, hint p99 %.1f ms; run to request p99 %.1f ms; %d of %d left, %d refused",
		out.RunMs.P99, out.PauseMs.P99, out.HintMs.P99, out.RunSentMs.P99, out.Left, out.Asked, out.Refused)
	return out, nil
}

// operator operates on endpoints over the API.
type operator struct {
	api  *client.Client
	ids  []string
	rate int // per second

	mu      sync.Mutex
	took    [4][]time.Duration // by operation
	runs    [][]time.Time      // times of accepted run requests, by endpoint
	asked   int
	left    int
	refused int
	first   error           // first refusal
	toSend  []time.Duration // from each run request to its request at the sink
}

// operator registers endpoints without due times of their own.
func (in *installation) operator(ctx context.Context, rate int) (*operator, error) {
	r, err := in.registrar(registerConns)
	if err != nil {
		return nil, err
	}
	far := time.Now().Add(once)
	made, err := r.register(ctx, operated, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, i, once, far) })
	return &operator{
		api:  r.api,
		ids:  made.ids,
		rate: rate,
		runs: make([][]time.Time, len(made.ids)),
	}, err
}

// run starts n operations on schedule, independent of the duration of earlier ones (open loop). It
// returns at the latest operateTimeout after the last start. The error is set only if the API
// answered no call at all.
func (o *operator) run(ctx context.Context, n int) error {
	var group errgroup.Group
	group.SetLimit(maxUnanswered)
	from := time.Now()
	for i := range n {
		if !await(ctx, from.Add(time.Duration(i)*time.Second/time.Duration(o.rate))) {
			break
		}
		o.asked++
		if !group.TryGo(func() error { o.once(ctx, i); return nil }) {
			o.left++
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if o.refused+o.left == o.asked {
		return fmt.Errorf("none of %d calls of the API was answered: %w", o.asked, o.first)
	}
	return ctx.Err()
}

// once performs one operation: a run, pause, resume or hint in turn. At any time these go to
// different endpoints, because a pause withdraws a requested run.
func (o *operator) once(ctx context.Context, i int) {
	what, turn := i%len(o.took), i/len(o.took)
	n := (turn + []int{0, len(o.ids) / 3, len(o.ids) / 3, 2 * len(o.ids) / 3}[what]) % len(o.ids)
	sent := time.Now()
	err := o.call(ctx, what, o.ids[n])
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.took[what] = append(o.took[what], time.Since(sent))
		if what == 0 {
			o.runs[n] = append(o.runs[n], sent)
		}
	case ctx.Err() == nil:
		o.refused++
		if o.first == nil {
			o.first = err
		}
	}
}

// call makes one API call and reads its answer.
func (o *operator) call(ctx context.Context, what int, id string) error {
	ctx, cancel := context.WithTimeout(ctx, operateTimeout)
	defer cancel()
	var res *http.Response
	var err error
	switch what {
	case 0:
		res, err = o.api.RunEndpoint(ctx, id, client.OneOffRun{}) //nolint:bodyclose // readAnswer closes it.
	case 1:
		res, err = o.api.PauseEndpoint(ctx, id, client.PauseRequest{}) //nolint:bodyclose // readAnswer closes it.
	case 2:
		res, err = o.api.ResumeEndpoint(ctx, id) //nolint:bodyclose // readAnswer closes it.
	default:
		res, err = o.api.PutIntervalHint(ctx, id, client.IntervalHintRequest{IntervalMs: once.Milliseconds() / 2, TTLMs: new(time.Minute.Milliseconds())}) //nolint:bodyclose // readAnswer closes it.
	}
	if err != nil {
		return err
	}
	return readAnswer(res, new(struct{}))
}

// sent finds the request of each requested run among the arrivals: the first of its endpoint after
// the call.
func (o *operator) sent(list arrivals) {
	o.mu.Lock()
	defer o.mu.Unlock()
	came := make([][]int64, len(o.ids))
	for _, a := range list {
		if a.Group == groupOther && int(a.N) < len(came) {
			came[a.N] = append(came[a.N], a.At)
		}
	}
	o.toSend = nil
	for n, asked := range o.runs {
		slices.Sort(came[n])
		for _, at := range asked {
			if i, _ := slices.BinarySearch(came[n], at.UnixNano()); i < len(came[n]) {
				o.toSend = append(o.toSend, time.Duration(came[n][i]-at.UnixNano()))
			}
		}
	}
}

func (o *operator) report() Operations {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Operations{
		PerSecond: o.rate,
		RunMs:     spreadOf(o.took[0]),
		PauseMs:   spreadOf(o.took[1]),
		ResumeMs:  spreadOf(o.took[2]),
		HintMs:    spreadOf(o.took[3]),
		RunSentMs: spreadOf(o.toSend),
		Asked:     o.asked,
		Left:      o.left,
		Refused:   o.refused,
		Unsent:    len(o.took[0]) - len(o.toSend),
	}
}

// medianOperations returns the medians over the rounds, and the sums of the faults.
func medianOperations(rounds []Operations) Operations {
	spread := func(of func(Operations) Spread) Spread {
		list := make([]Spread, len(rounds))
		for i, r := range rounds {
			list[i] = of(r)
		}
		return medianSpread(list)
	}
	var sum Operations
	for _, r := range rounds {
		sum.Asked, sum.Left, sum.Refused, sum.Unsent = sum.Asked+r.Asked, sum.Left+r.Left, sum.Refused+r.Refused, sum.Unsent+r.Unsent
	}
	return Operations{
		PerSecond: rounds[0].PerSecond,
		Asked:     sum.Asked,
		Left:      sum.Left,
		Refused:   sum.Refused,
		Unsent:    sum.Unsent,
		RunSentMs: spread(func(o Operations) Spread { return o.RunSentMs }),
		RunMs:     spread(func(o Operations) Spread { return o.RunMs }),
		PauseMs:   spread(func(o Operations) Spread { return o.PauseMs }),
		ResumeMs:  spread(func(o Operations) Spread { return o.ResumeMs }),
		HintMs:    spread(func(o Operations) Spread { return o.HintMs }),
		LagMs:     spread(func(o Operations) Spread { return o.LagMs }),
	}
}
