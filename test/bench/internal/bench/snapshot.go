package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Snapshot compares a steady load before and during an old snapshot: an open transaction, as of a
// backup or a forgotten session. Postgres keeps every row version that the snapshot can see, so
// that dead tuples pile up (bloat).
type Snapshot struct {
	Steady

	// Age is the age of the snapshot at the beginning of the second measurement. The load goes on
	// meanwhile.
	Age time.Duration
}

// SnapshotReport holds both measurements. They use the same workers and the same database, one
// after the other.
type SnapshotReport struct {
	AgeSeconds float64       `json:"ageSeconds"`
	Without    SnapshotPoint `json:"without"`
	With       SnapshotPoint `json:"with"`
}

// SnapshotPoint is a steady load with or without the snapshot: the median over the rounds.
type SnapshotPoint struct {
	Measure

	// ExpiredClaims counts the claims with a lock that ended before the start. With the snapshot,
	// it counts from the beginning of the snapshot. Rounds are summed.
	ExpiredClaims int `json:"expiredClaims"`
}

// Run measures both loads. Only Rubato takes part.
func (s Snapshot) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, s.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	s.Alone = true
	out := &SnapshotReport{AgeSeconds: s.Age.Seconds()}
	var with []Measure
	r, err := s.hold(ctx, l, s.workload(), func(ctx context.Context, _ int) (Measure, error) {
		pair, err := persistently(l, contenderRubato, func(stretch int) (SnapshotReport, error) { return s.compare(ctx, l, stretch) })
		out.Without.ExpiredClaims += pair.Without.ExpiredClaims
		out.With.ExpiredClaims += pair.With.ExpiredClaims
		with = append(with, pair.With.Measure)
		return pair.Without.Measure, err
	})
	out.Without.Measure, out.With.Measure = r.Measure, medianOf(with)
	s.describe(&r, "steady --snapshot")
	r.Snapshot = out
	return r, err
}

// compare measures one installation before the snapshot is taken, and again when the snapshot has
// reached its age.
func (s Snapshot) compare(ctx context.Context, l *environment, stretch int) (out SnapshotReport, err error) {
	in, err := l.install(ctx, nil)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	w := s.workload()
	// The endpoints fill the whole interval, even if it is longer than --for, because the load must
	// not pause between the measurements.
	endpoints := max(1, int(float64(s.Rate)*s.Every.Seconds()))
	if err := in.begin(ctx, start{
		work:      &w,
		endpoints: endpoints,
		every:     s.Every,
		workers:   s.Workers,
		stretch:   stretch,
	}); err != nil {
		return out, err
	}
	if out.Without, err = in.point(ctx, w); err != nil {
		return out, err
	}
	release, err := in.db.holdSnapshot(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, release()) }()
	before, err := in.expiredClaims(ctx)
	if err != nil {
		return out, err
	}
	w.Due = s.again(w.Due, time.Now())
	l.Progress.Say("  a snapshot is held until %s", w.end().Format(time.TimeOnly))
	if !await(ctx, w.Due.Add(-time.Second)) {
		return out, ctx.Err()
	}
	if out.With, err = in.point(ctx, w); err != nil {
		return out, err
	}
	out.With.ExpiredClaims -= before
	return out, nil
}

// again returns the first due time of the second measurement. It lies whole intervals after the
// first, so that the endpoints come due in the same order, and at least the snapshot's age after
// now.
func (s Snapshot) again(first, now time.Time) time.Time {
	ahead := now.Add(s.Age + 2*time.Second).Sub(first)
	return first.Add((ahead + s.Every - 1).Truncate(s.Every))
}

// point measures one window. Its count of expired claims starts with the workers.
func (in *installation) point(ctx context.Context, w workload) (p SnapshotPoint, err error) {
	watched := in.watch(w)
	watched.ready = w.Due // Workers already claim, so the first claim of the window needs no preparation.
	if p.Measure, err = in.db.lab.watch(ctx, watched); err != nil {
		return p, err
	}
	p.ExpiredClaims, err = in.expiredClaims(ctx)
	return p, err
}

// expiredClaims reads the number of expired claims from the workers' metrics.
func (in *installation) expiredClaims(ctx context.Context) (total int, err error) {
	for _, w := range in.workers {
		text, err := fetch(ctx, "GET", w.news.Serves.Admin+"/metrics")
		if err != nil {
			return 0, fmt.Errorf("read metrics of a worker: %w", err)
		}
		n, err := counterIn(text, "rubato_claims_lock_expired_total")
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// counterIn returns a counter without labels from metrics in the text format.
func counterIn(text []byte, name string) (int, error) {
	for line := range bytes.Lines(text) {
		if value, found := bytes.CutPrefix(line, []byte(name+" ")); found {
			n, err := strconv.ParseFloat(string(bytes.TrimSpace(value)), 64)
			return int(n), err
		}
	}
	return 0, fmt.Errorf("read metrics of a worker: %s is missing", name)
}

// table returns both measurements as a table.
func (r SnapshotReport) table() Table {
	age := time.Duration(r.AgeSeconds * float64(time.Second))
	t := Table{
		Title:  fmt.Sprintf("steady load, before and beside a snapshot of %s", age),
		Header: append(append([]string{"SNAPSHOT"}, measureHeader()...), "EXPIRED CLAIMS"),
	}
	for _, row := range []struct {
		name  string
		point SnapshotPoint
	}{{"none", r.Without}, {age.String(), r.With}} {
		t.Rows = append(t.Rows, append(append([]string{row.name}, row.point.row()...), fmt.Sprint(row.point.ExpiredClaims)))
	}
	return t
}
