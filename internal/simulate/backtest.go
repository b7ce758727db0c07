package simulate

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

// Look is a recorded run, as far as a backtest depends on it.
type Look struct {
	// At is the start of the request.
	At time.Time
	// Failed means that the target failed, so that its content is unknown.
	Failed bool
	// Unchanged means that the target answered 304. Then Digest is ignored.
	Unchanged bool
	Digest    uint64
}

// LooksOf returns recorded runs that say something about the target, oldest first. The list is
// newest first. One-off runs may have sent another request, so they are left out.
func LooksOf(list []runs.Run) (looks []Look) {
	for _, r := range slices.Backward(list) {
		o := &r.Outcome
		succeeded := o.Status == runs.Succeeded
		if r.FinishedAt.IsZero() || r.OneOff() || !succeeded && !o.CountsAsFailure() {
			continue
		}
		looks = append(looks, Look{
			At:        r.StartedAt,
			Failed:    !succeeded,
			Unchanged: o.StatusCode == http.StatusNotModified,
			Digest:    o.BodyDigest,
		})
	}
	return looks
}

// Backtest replays the recorded answers of an endpoint's target under other policies.
type Backtest struct {
	// Looks are in ascending order. The time of the backtest is that from the first to the last.
	Looks    []Look
	Policies []Policy
}

// Range is a figure that is known only within bounds.
type Range struct {
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
}

// BacktestRow is the result of a policy. A change happened between two recorded requests, at an
// unknown time. The bounds are those of two worlds: one in which each change happened right after
// the earlier request, and one in which it happened right before the later one.
type BacktestRow struct {
	Policy      string `json:"policy"`
	Polls       Range  `json:"polls"`
	Changes     int64  `json:"changes"`
	MeanDelayMs Range  `json:"meanDelayMs"`
	P95DelayMs  Range  `json:"p95DelayMs"`
	// PollsSaved is the share of the recorded requests that the policy does without; negative: it
	// makes more. Nil in the row of the requests on record.
	PollsSaved *Range `json:"pollsSaved,omitempty"`
	// SoonerMs is by how much sooner the policy finds a change on average; negative: later. Nil in
	// the row of the requests on record, and without changes.
	SoonerMs *Range `json:"soonerMs,omitempty"`
}

// Recorded names the row of the requests on record.
const Recorded = "recorded"

// ErrTooFewLooks reports a history with fewer than two successful answers.
var ErrTooFewLooks = errors.New("the history has fewer than two successful answers with content to compare")

// ReadBacktest returns a backtest of an endpoint, given as its JSON object. Each policy is a name
// or an object, as in a scenario. The error is an [errs.Invalid] that names every bad field.
func (r Reader) ReadBacktest(endpoint map[string]any, policies []any, looks []Look) (Backtest, error) {
	var f faults
	var e Endpoint
	o, _ := newObject(&f, "", maps.Clone(endpoint))
	r.policies(o, &e, policies, endpoint)
	return Backtest{Looks: looks, Policies: e.Policies}, errs.InvalidFields(f.list)
}

// Run returns a row of the recorded requests, and a row per policy.
func (b Backtest) Run(ctx context.Context) ([]BacktestRow, error) {
	early, late, err := recordedTargets(b.Looks)
	if err != nil {
		return nil, err
	}
	length := b.Looks[len(b.Looks)-1].At.Sub(early.begin) + time.Millisecond
	recorded := recordedTallies(b.Looks, early, late)
	rows := []BacktestRow{{Policy: Recorded, Changes: int64(len(late.changes))}}
	rows[0].fill(&recorded[0], &recorded[1])
	for i := range b.Policies {
		row := BacktestRow{Policy: b.Policies[i].Name, Changes: int64(len(late.changes))}
		var worlds [2]tally
		for j, t := range []target{early, late} {
			a, err := newActor(&b.Policies[i], t, length)
			if err != nil {
				return nil, err
			}
			w := newWorld(length)
			w.actors = []*actor{a}
			if err := w.run(ctx); err != nil {
				return nil, err
			}
			worlds[j] = a.tally
		}
		row.fill(&worlds[0], &worlds[1])
		row.score(&worlds, &recorded)
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *BacktestRow) fill(a, b *tally) {
	r.Polls = rangeOf(float64(a.polls), float64(b.polls))
	r.MeanDelayMs = rangeOf(rounded(a.delays.mean()), rounded(b.delays.mean()))
	r.P95DelayMs = rangeOf(rounded(a.delays.percentile(0.95)), rounded(b.delays.percentile(0.95)))
}

// score compares a policy with the requests on record, world by world.
func (r *BacktestRow) score(policy, recorded *[2]tally) {
	var saved, sooner [2]float64
	for i := range policy {
		saved[i] = 1 - float64(policy[i].polls)/float64(recorded[i].polls)
		sooner[i] = rounded(recorded[i].delays.mean() - policy[i].delays.mean())
	}
	r.PollsSaved = new(rangeOf(saved[0], saved[1]))
	if r.Changes > 0 {
		r.SoonerMs = new(rangeOf(sooner[0], sooner[1]))
	}
}

func rangeOf(a, b float64) Range { return Range{min(a, b), max(a, b)} }

// outage is a recorded time without successful answers.
type outage struct{ from, until time.Duration }

// recordedTargets returns the target with the earliest and with the latest possible changes.
func recordedTargets(looks []Look) (early, late target, err error) {
	known := slices.IndexFunc(looks, func(l Look) bool { return !l.Failed && !l.Unchanged && l.Digest != 0 })
	if known < 0 {
		return early, late, ErrTooFewLooks
	}
	first := looks[0].At
	digest, seen := looks[known].Digest, looks[known].At.Sub(first)
	compared := 0
	for _, l := range looks[known+1:] {
		if l.Failed || !l.Unchanged && l.Digest == 0 {
			continue
		}
		at := l.At.Sub(first)
		compared++
		if !l.Unchanged && l.Digest != digest {
			if runs.Comparable(l.Digest, digest) {
				early.changes, late.changes = append(early.changes, seen+1), append(late.changes, at)
			}
			digest = l.Digest
		}
		seen = at
	}
	if compared == 0 {
		return early, late, ErrTooFewLooks
	}
	outages := outagesOf(looks)
	for _, t := range []*target{&early, &late} {
		t.begin, t.outages, t.seed, t.told = first, outages, 1, -1
	}
	return early, late, nil
}

// outagesOf returns the times without successful answers. The last one has no end if the looks end
// in it.
func outagesOf(looks []Look) (outages []outage) {
	failing := time.Duration(-1)
	for _, l := range looks {
		at := l.At.Sub(looks[0].At)
		switch {
		case l.Failed && failing < 0:
			failing = at
		case !l.Failed && failing >= 0:
			outages, failing = append(outages, outage{failing, at}), -1
		}
	}
	if failing >= 0 {
		outages = append(outages, outage{failing, never})
	}
	return outages
}

// recordedTallies returns the requests on record in both worlds.
func recordedTallies(looks []Look, early, late target) (worlds [2]tally) {
	for i := range worlds {
		worlds[i].polls = int64(len(looks))
	}
	for i, at := range late.changes {
		worlds[0].delays.add(at - early.changes[i])
		worlds[1].delays.add(0)
	}
	return worlds
}
