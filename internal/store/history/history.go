// Package history keeps append-only records: finished runs, their events, the ledger of decisions,
// skipped due times and the events of the feed. [Runs] reads them. Other stores write them in the
// transactions of their changes.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Records collects finished runs for one insert.
type Records struct {
	Rows   dbsqlc.RunInsertParams
	Bodies dbsqlc.RunBodyInsertParams
}

// Add adds a finished run and the decision of its finish. decided is nil if no decision was made.
func (h *Records) Add(run runs.Run, version int64, failures int, decided *endpoints.Recorded) {
	r, o := &h.Rows, run.Outcome
	r.Ids = append(r.Ids, run.ID)
	r.ScheduledFor = append(r.ScheduledFor, run.ScheduledFor)
	r.EndpointIds = append(r.EndpointIds, run.EndpointID)
	r.TenantIds = append(r.TenantIds, run.TenantID)
	r.Attempts = append(r.Attempts, int16(run.Attempt))
	r.InfraAttempts = append(r.InfraAttempts, int16(run.InfraAttempt))
	r.Sources = append(r.Sources, run.Source)
	r.Tokens = append(r.Tokens, run.ClaimToken)
	r.WorkerIds = append(r.WorkerIds, run.WorkerID)
	r.ClaimedAt = append(r.ClaimedAt, run.ClaimedAt)
	r.StartedAt = append(r.StartedAt, run.StartedAt)
	r.FinishedAt = append(r.FinishedAt, run.FinishedAt)
	r.Statuses = append(r.Statuses, string(o.Status))
	r.Reasons = append(r.Reasons, string(o.Reason))
	r.StatusCodes = append(r.StatusCodes, int16(o.StatusCode))
	r.DnsUs = append(r.DnsUs, micros(o.Phases.DNS))
	r.ConnectUs = append(r.ConnectUs, micros(o.Phases.Connect))
	r.TlsUs = append(r.TlsUs, micros(o.Phases.TLS))
	r.WaitUs = append(r.WaitUs, micros(o.Phases.Wait))
	r.TransferUs = append(r.TransferUs, micros(o.Phases.Transfer))
	r.ResponseBytes = append(r.ResponseBytes, o.ResponseBytes)
	r.Truncated = append(r.Truncated, o.Truncated)
	r.Errors = append(r.Errors, pg.Storable(o.Error))
	r.Versions = append(r.Versions, version)
	r.FailureCounts = append(r.FailureCounts, int32(failures))
	var skipped runs.Skips
	if run.Skipped != nil {
		skipped = *run.Skipped
	}
	r.SkippedFrom = append(r.SkippedFrom, skipped.From)
	r.SkippedCounts = append(r.SkippedCounts, skipped.Count)
	r.BodyDigests = append(r.BodyDigests, int64(o.BodyDigest))
	h.addDecision(run, decided)
	if len(o.Body)+len(o.Tail) > 0 {
		b := &h.Bodies
		b.RunIds = append(b.RunIds, run.ID)
		b.ScheduledFor = append(b.ScheduledFor, run.ScheduledFor)
		b.ContentTypes = append(b.ContentTypes, pg.Storable(o.ContentType))
		b.Bodies = append(b.Bodies, pg.NotNull(o.Body))
		b.Tails = append(b.Tails, o.Tail)
	}
}

func (h *Records) addDecision(run runs.Run, decided *endpoints.Recorded) {
	var at, made time.Time
	var source, steps, basis string
	if decided != nil {
		at, source, made = decided.Due.At, string(decided.Due.Source), decided.At
		steps, basis = string(FinishSteps(decided)), string(basisOf(run, decided))
	}
	h.Rows.NextRunAt = append(h.Rows.NextRunAt, at)
	h.Rows.NextSources = append(h.Rows.NextSources, source)
	h.Rows.NextSteps = append(h.Rows.NextSteps, steps)
	h.Rows.DecidedAt = append(h.Rows.DecidedAt, made)
	h.Rows.Bases = append(h.Rows.Bases, basis)
}

// basisOf returns the stored basis of the decision of a finish. It is nil for most runs. A request
// that was sent matters only for a run that may be repeated.
func basisOf(run runs.Run, decided *endpoints.Recorded) json.RawMessage {
	o := &run.Outcome
	b := Basis{
		State:      decided.From,
		Shared:     decided.Shared,
		Sent:       o.MaybeSent && o.Status != runs.Succeeded,
		LookAgain:  o.LookAgain,
		RetryAfter: o.RetryAfter.Truncate(time.Microsecond),
		TargetNext: o.TargetNext.Truncate(time.Microsecond),
		OpenUntil:  o.OpenUntil.Truncate(time.Microsecond),
		FreshUntil: o.FreshUntil.Truncate(time.Microsecond),
	}
	return b.encode()
}

// ChangeBasis returns the stored basis of the decision of a change.
func ChangeBasis(decided *endpoints.Recorded) json.RawMessage {
	b := Basis{
		State:   decided.From,
		Shared:  decided.Shared,
		Started: decided.Started,
	}
	return b.encode()
}

// FinishSteps returns the trace that is stored with the decision of a finish; nil: none.
func FinishSteps(decided *endpoints.Recorded) json.RawMessage {
	if !needsTrace(*decided) {
		return nil
	}
	raw, err := json.Marshal(decided.Decision.Steps)
	if err != nil {
		panic(err) // Texts and instants between 2020 and 2200 always encode.
	}
	return raw
}

// needsTrace reports whether the steps of a decision must be stored: several rules took part, or
// failures stretched the interval. The trace of a plain run is not stored, because it can be
// derived.
func needsTrace(d endpoints.Recorded) bool {
	return len(d.Decision.Steps) > 1 || d.Input.Failures > 0 && d.Due.Source == governor.SourceBaselineInterval
}

// runsPerFeedRow is the maximum number of runs per row of finished_runs. It keeps a row within its
// page.
const runsPerFeedRow = 50

// FillFeed fills the rows for the feed: the collected runs, grouped by tenant and ordered by ID,
// which is their order in the feed. Skipped due times are left out.
func (h *Records) FillFeed() {
	r := &h.Rows
	order := make([]int, 0, len(r.Ids))
	for i, passed := range r.SkippedCounts {
		if passed == 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(bytes.Compare(r.TenantIds[i][:], r.TenantIds[j][:]), bytes.Compare(r.Ids[i][:], r.Ids[j][:]))
	})
	for _, i := range order {
		n := len(r.FeedTenants) - 1
		if n < 0 || r.FeedTenants[n] != r.TenantIds[i] || r.FeedLast[n]-r.FeedFirst[n]+1 == runsPerFeedRow {
			place := int32(len(r.FeedRuns))
			r.FeedTenants, r.FeedFirst, r.FeedLast = append(r.FeedTenants, r.TenantIds[i]), append(r.FeedFirst, place+1), append(r.FeedLast, place)
			n++
		}
		r.FeedRuns, r.FeedEndpoints = append(r.FeedRuns, r.Ids[i]), append(r.FeedEndpoints, r.EndpointIds[i])
		r.FeedLast[n]++
	}
}

// Writes returns the statements that insert the collected runs and their rows for the feed.
func (h *Records) Writes(ctx context.Context, db *pg.DB) []pg.Statement {
	h.FillFeed()
	h.Rows.Now = db.Now()
	list := []pg.Statement{func(tx dbsqlc.DBTX) error { return db.Q.RunInsert(ctx, tx, h.Rows) }}
	if len(h.Bodies.RunIds) > 0 {
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.RunBodyInsert(ctx, tx, h.Bodies) })
	}
	return list
}

// micros returns whole microseconds, clamped to the range of the column (35 min, longer than any
// run).
func micros(d time.Duration) int32 {
	return int32(min(max(d.Microseconds(), 0), 1<<31-1))
}

// FinishedOf returns the part of a run that decides about its endpoint. Its instants are cut to the
// microseconds of the history, so that a replay decides by the same instants.
func FinishedOf(run runs.Run) endpoints.Finished {
	o := run.Outcome
	f := endpoints.Finished{
		Slot:         run.ScheduledFor,
		Attempt:      run.Attempt,
		InfraAttempt: run.InfraAttempt,
		Source:       governor.Source(run.Source),
		StartedAt:    run.StartedAt.Truncate(time.Microsecond),
		FinishedAt:   run.FinishedAt.Truncate(time.Microsecond),
		Status:       string(o.Status),
		Retryable:    o.Retryable(),
		MaybeSent:    o.MaybeSent,
		RetryAfter:   o.RetryAfter.Truncate(time.Microsecond),
		OpenUntil:    o.OpenUntil.Truncate(time.Microsecond),
		TargetNext:   o.TargetNext.Truncate(time.Microsecond),
		FreshUntil:   o.FreshUntil.Truncate(time.Microsecond),
		Unanswered:   o.StatusCode == 0,
		Interrupted:  o.Interrupted(),
		Reason:       string(o.Reason),
		Digest:       o.BodyDigest,
		LookAgain:    o.LookAgain,
		Unchanged:    o.StatusCode == http.StatusNotModified,
	}
	switch {
	case o.Status == runs.Succeeded:
		f.Verdict = endpoints.Success
	case o.CountsAsFailure():
		f.Verdict = endpoints.Failure
	}
	return f
}

// RunDays returns the days of history of runs.
func RunDays(list []runs.Run) []time.Time {
	days := make([]time.Time, len(list))
	for i, run := range list {
		days[i] = pg.DayOf(run.ScheduledFor)
	}
	return days
}
