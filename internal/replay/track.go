package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/store/history"
	"rubato/internal/tempo"
)

// endpointReplay is the replay of one endpoint. Its endpoint is as the last decision left it.
type endpointReplay struct {
	endpoint endpoints.Endpoint
	versions map[int64]*version
	rules    rules
	// begun reports that the state is known.
	begun         bool
	since         time.Time // the first decision that was made again
	runs, changes int
}

// newTrack returns the replay of an endpoint before its first entry.
func newTrack(ctx context.Context, tx pgx.Tx, o Options, id endpoints.ID) (*endpointReplay, error) {
	t := &endpointReplay{rules: o.rules}
	e := &t.endpoint
	e.ID = id
	err := tx.QueryRow(ctx, "SELECT tenant_id, created_at FROM endpoints WHERE id = $1", [16]byte(id)).Scan(&e.TenantID, &e.CreatedAt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errors.New("there is no such endpoint")
	}
	if err != nil {
		return nil, fmt.Errorf("reading its row: %w", err)
	}
	e.CreatedAt = e.CreatedAt.UTC()
	t.versions, err = versions(ctx, tx, id)
	return t, err
}

// step makes the decision of an entry again. It skips entries before the state is known.
func (t *endpointReplay) step(row *entry) (*Difference, error) {
	basis, err := history.DecodeBasis(row.basis)
	if err != nil {
		return nil, err
	}
	if !t.begun && (basis.State == nil || row.cause != endpoints.CauseFinish && row.cause != endpoints.CauseRegister) {
		return nil, nil //nolint:nilnil // Nothing to compare is no error.
	}
	v := t.versions[row.version]
	if v == nil {
		return nil, fmt.Errorf("version %d of the configuration is not on record any more: begin later", row.version)
	}
	before := t.endpoint
	e := &t.endpoint
	e.Spec, e.Cron, e.Version, e.Shared = v.spec, v.cron, row.version, basis.Shared
	if t.since.IsZero() {
		t.since = row.at
	}
	var found *difference
	if row.cause == endpoints.CauseFinish {
		t.runs++
		found, err = t.finish(row, basis)
	} else {
		t.changes++
		found, err = t.change(row, basis, &before)
	}
	t.begun = true
	t.store()
	return found.at(row, e.ID), err
}

// store keeps the part of a state that the schedule holds, as the store does. The queue of one-off
// runs has rows of its own; a decision that sees any of them records them.
func (t *endpointReplay) store() {
	e := &t.endpoint
	e.Unrecorded, e.Held, e.State.OneOffs = nil, nil, endpoints.OneOffs{}
}

// finish makes the decision after a run again.
func (t *endpointReplay) finish(row *entry, basis history.Basis) (*difference, error) {
	e, run := &t.endpoint, row.run
	if t.begun {
		if found := planned(&e.State.Due, row); found != nil {
			return found, nil
		}
	}
	if found := t.adopt(basis); found != nil {
		return found, nil
	}
	o := &run.Outcome
	o.MaybeSent, o.LookAgain = basis.Sent, basis.LookAgain
	o.RetryAfter, o.TargetNext, o.FreshUntil, o.OpenUntil = basis.RetryAfter, basis.TargetNext, basis.FreshUntil, basis.OpenUntil
	decided, err := t.rules.afterRun(e, row.at, history.FinishedOf(run))
	if err != nil {
		return nil, err
	}
	if found := compareDecision(row, &decided, history.FinishSteps(&decided)); found != nil {
		return found, nil
	}
	return compare("failureCount", int(*row.failures), e.State.FailureCount), nil
}

// change makes the decision after a change again.
func (t *endpointReplay) change(row *entry, basis history.Basis, before *endpoints.Endpoint) (_ *difference, err error) {
	e := &t.endpoint
	if basis.State == nil {
		return nil, fmt.Errorf("decision %d has no state", row.id)
	}
	if row.cause == endpoints.CauseQuarantine {
		return t.quarantine(row, basis), nil
	}
	if found := t.adopt(basis); found != nil {
		return found, nil
	}
	var decided endpoints.Recorded
	if row.cause == endpoints.CauseDetach {
		decided, err = t.rules.detach(e, row.at, basis.Started)
	} else {
		decided, err = t.rules.redecide(e, row.at, before, row.cause)
	}
	if err != nil {
		return nil, err
	}
	return compareChange(row, &decided)
}

// adopt takes over the state that a decision recorded, if any. Members that no change touches must
// be those of the replay.
func (t *endpointReplay) adopt(basis history.Basis) *difference {
	if basis.State == nil {
		return nil
	}
	if t.begun {
		if found := compareStates(basis.State, &t.endpoint.State, t.members(untouched)); found != nil {
			return found
		}
	}
	t.endpoint.State = *basis.State
	return nil
}

// members returns those of the members that can be compared. The last run of an endpoint that
// detaches its runs is written at their ends, which are decisions only while no other run holds its
// row.
func (t *endpointReplay) members(list []string) []string {
	if !t.endpoint.Spec.DetachesRuns() {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return name == "lastRun" })
}

// quarantine takes over the state after a fault, which is not a decision of the rules.
func (t *endpointReplay) quarantine(row *entry, basis history.Basis) *difference {
	e, s := &t.endpoint, basis.State
	decided := e.Quarantine(row.at, errors.New(strings.TrimPrefix(s.PauseReason, endpoints.QuarantinePrefix)))
	e.State.AccountedUntil, e.State.FailureCount = s.AccountedUntil, s.FailureCount
	e.State.RetryAfter, e.State.TargetNext, e.State.FreshUntil = s.RetryAfter, s.TargetNext, s.FreshUntil
	found, err := compareChange(row, &decided)
	if err != nil {
		return &difference{field: "nextSteps", recorded: err.Error()}
	}
	return found
}

// finally compares the last state with the schedule in force. During a live run a change may have
// written members that no decision has seen yet.
func (t *endpointReplay) finally(ctx context.Context, tx pgx.Tx) (*Difference, error) {
	s := endpoints.State{LastRun: &endpoints.LastRun{}}
	var live bool
	var lastStatus *string
	var lastAttempt *int
	var filter []byte
	err := tx.QueryRow(ctx, `
		SELECT run_id IS NOT NULL, planned_at, slot, attempt, infra_attempt, source, failure_count, runs_done, coalesce(ended_at, $2), coalesce(pause_reason, ''),
		       coalesce(anchor, $2), coalesce(last_slot, $2), coalesce(paused_until, $2), coalesce(retry_after, $2), coalesce(target_next, $2),
		       coalesce(fresh_until, $2), coalesce(last_call_at, $2), coalesce(accounted_until, $2), tempo,
		       last_status, coalesce(last_run_slot, $2), last_attempt, last_infra_attempt, coalesce(last_started_at, $2), coalesce(last_finished_at, $2)
		FROM schedules WHERE endpoint_id = $1 AND NOT archived`, [16]byte(t.endpoint.ID), time.Time{}).Scan(
		&live, &s.Due.At, &s.Due.Slot, &s.Due.Attempt, &s.Due.InfraAttempt, &s.Due.Source, &s.FailureCount, &s.RunsDone, &s.EndedAt, &s.PauseReason,
		&s.Anchor, &s.LastSlot, &s.PausedUntil, &s.RetryAfter, &s.TargetNext,
		&s.FreshUntil, &s.LastCall, &s.AccountedUntil, &filter,
		&lastStatus, &s.LastRun.Slot, &lastAttempt, &s.LastRun.InfraAttempt, &s.LastRun.StartedAt, &s.LastRun.FinishedAt,
	)
	if errors.Is(err, pgx.ErrNoRows) || !t.begun { // It was archived, or nothing of it is known.
		return nil, nil //nolint:nilnil // Nothing to compare is no error.
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schedule: %w", err)
	}
	if lastStatus == nil {
		s.LastRun = nil
	} else {
		s.LastRun.Status, s.LastRun.Attempt = *lastStatus, *lastAttempt
	}
	if filter != nil {
		stored, err := tempo.Decode(filter)
		if err != nil {
			return nil, err
		}
		s.Tempo = &stored
	}
	members := scheduled
	if live {
		members = untouched
	}
	found := compareStates(&s, &t.endpoint.State, t.members(members))
	return found.at(&entry{cause: "schedule"}, t.endpoint.ID), nil
}

// compareChange compares the decision of a change with its record.
func compareChange(row *entry, decided *endpoints.Recorded) (*difference, error) {
	steps, err := json.Marshal(decided.Decision.Steps)
	if err != nil {
		return nil, err
	}
	if found := compareDecision(row, decided, steps); found != nil {
		return found, nil
	}
	input, err := json.Marshal(history.LedgerInput(decided.Input))
	if err != nil {
		return nil, err
	}
	return compareJSON("input", row.input, input), nil
}

// planned compares the due time that the decision before planned with the one of a run.
func planned(due *endpoints.Due, row *entry) *difference {
	return first(
		compare("scheduledFor", row.run.ScheduledFor, due.Slot),
		compare("attempt", row.run.Attempt, due.Attempt),
		compare("infraAttempt", row.run.InfraAttempt, due.InfraAttempt),
		compare("source", governor.Source(row.run.Source), due.Source),
	)
}

// compareDecision compares due time, source and trace.
func compareDecision(row *entry, decided *endpoints.Recorded, steps []byte) *difference {
	return first(
		compare("nextRunAt", row.next, decided.Due.At),
		compare("nextSource", governor.Source(row.source), decided.Due.Source),
		compareJSON("nextSteps", row.steps, steps),
	)
}
