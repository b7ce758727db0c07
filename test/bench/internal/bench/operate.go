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

// Operations tells how fast the API answers what is done to endpoints while a worker makes calls.
type Operations struct {
	PerSecond int    `json:"perSecond"`
	RunMs     Spread `json:"runMs"`
	PauseMs   Spread `json:"pauseMs"`
	ResumeMs  Spread `json:"resumeMs"`
	HintMs    Spread `json:"hintMs"`
	RunSentMs Spread `json:"runSentMs"` // from the call for a run to its request at the sink
	LagMs     Spread `json:"lagMs"`     // of the calls of the worker meanwhile
	Asked     int    `json:"asked"`     // calls that were to be made
	Left      int    `json:"left"`      // of them not made, because the API had not answered so many before
	Refused   int    `json:"refused"`   // answered by an error, or by nothing in time
	Unsent    int    `json:"unsent"`    // runs that were asked for and whose request did not come
}

const (
	// operated is how many endpoints are operated on in turn: enough that two operations of one endpoint never meet.
	operated = 200
	// maxUnanswered is how many calls may wait for their answers. An API that is slower than the rate would let them grow without end;
	// what is beyond is left, and counted.
	maxUnanswered = 256
	// operateTimeout bounds one call: more than any limit by which the API answers that it cannot.
	operateTimeout = 25 * time.Second
)

// operations does things to endpoints at a rate, beside calls at another.
func (x Load) operations(ctx context.Context, l *lab) (Operations, error) {
	l.Progress.Say("operations: %d a second beside %d calls a second", x.Operate, x.Rate)
	var o *operator
	s := Steady{Rate: x.Rate, For: x.For, Every: beyondHorizon, Workers: 1}
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

// operator does things to endpoints over the API.
type operator struct {
	api  *client.Client
	ids  []string
	rate int // a second

	mu      sync.Mutex
	took    [4][]time.Duration // by what was done
	runs    [][]time.Time      // when a run of each endpoint was asked for, of those that were granted
	asked   int
	left    int
	refused int
	first   error           // the first refusal
	toSend  []time.Duration // from each call for a run to its request
}

// operator registers endpoints that do nothing by themselves.
func (in *installation) operator(ctx context.Context, rate int) (*operator, error) {
	r, err := in.registrar(registerConns)
	if err != nil {
		return nil, err
	}
	far := time.Now().Add(once)
	made, err := r.register(ctx, operated, func(i int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, i, once, far) })
	return &operator{api: r.api, ids: made.ids, rate: rate, runs: make([][]time.Time, len(made.ids))}, err
}

// run does n things, each at its time, however long the one before takes. It ends an answer's time after the last of them at the latest,
// whatever the API does; the error is one only where it answered nothing at all.
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

// once does one thing: a run, a pause, a resume and a hint of each endpoint in turn. What is run, what is paused and what gets a hint at
// one time are different endpoints: a pause takes back a request for a run.
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

// call makes one call and reads its answer.
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

// sent finds, among everything that came, the request of each run that was asked for: the first of its endpoint after the call.
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
		PerSecond: o.rate, RunMs: spreadOf(o.took[0]), PauseMs: spreadOf(o.took[1]), ResumeMs: spreadOf(o.took[2]), HintMs: spreadOf(o.took[3]),
		RunSentMs: spreadOf(o.toSend), Asked: o.asked, Left: o.left, Refused: o.refused, Unsent: len(o.took[0]) - len(o.toSend),
	}
}

// medianOperations returns the median of each number, and of what went wrong the sum.
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
		PerSecond: rounds[0].PerSecond, Asked: sum.Asked, Left: sum.Left, Refused: sum.Refused, Unsent: sum.Unsent,
		RunSentMs: spread(func(o Operations) Spread { return o.RunSentMs }),
		RunMs:     spread(func(o Operations) Spread { return o.RunMs }), PauseMs: spread(func(o Operations) Spread { return o.PauseMs }),
		ResumeMs: spread(func(o Operations) Spread { return o.ResumeMs }), HintMs: spread(func(o Operations) Spread { return o.HintMs }),
		LagMs: spread(func(o Operations) Spread { return o.LagMs }),
	}
}
