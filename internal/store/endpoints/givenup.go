package endpoints

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"rubato/internal/deadletters"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
)

// GivenUp is a run that was given up, with its endpoint.
type GivenUp struct {
	Run runs.Run
	// Endpoint is nil if it was archived during the run. Then the configuration at the claim
	// decides whether the run leaves a dead letter.
	Endpoint *endpoints.Endpoint
}

// call returns the call of the run; nil: it is a run of an endpoint.
func (g GivenUp) call() *endpoints.Call {
	if g.Endpoint == nil {
		return nil
	}
	return g.Endpoint.Call
}

// DeadLetters returns the statements that insert the dead letters of runs that were given up. It
// reads their requests first, which costs a round trip, because runs are seldom given up.
func (db *States) DeadLetters(ctx context.Context, q dbsqlc.DBTX, now time.Time, list []GivenUp) ([]pg.Statement, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var asked dbsqlc.DeadLetterRequestsParams
	for _, g := range list {
		asked.EndpointIds = append(asked.EndpointIds, g.Run.EndpointID)
		asked.Slots = append(asked.Slots, g.Run.ScheduledFor)
		asked.ClaimedAt = append(asked.ClaimedAt, g.Run.ClaimedAt)
	}
	rows, err := db.Q.DeadLetterRequests(ctx, q, asked)
	if err != nil {
		return nil, fmt.Errorf("reading the requests of %d runs that were given up: %w", len(list), err)
	}
	p := dbsqlc.DeadLetterInsertParams{CreatedAt: now}
	for _, row := range rows {
		if err := db.addLetter(&p, list[row.N-1], row); err != nil {
			return nil, err
		}
	}
	if len(p.Ids) == 0 { // Runs of archived endpoints that leave none.
		return nil, nil
	}
	return []pg.Statement{func(q dbsqlc.DBTX) error { return db.Q.DeadLetterInsert(ctx, q, p) }}, nil
}

// addLetter adds the dead letter of a run to the insert.
func (db *States) addLetter(p *dbsqlc.DeadLetterInsertParams, g GivenUp, row *dbsqlc.DeadLetterRequestsRow) error {
	if row.Chained && g.Run.Outcome.Reason == runs.DeadlinePassed {
		return nil // Its chain was canceled or timed out: steps have no deadline of their own.
	}
	content, asked, err := contentOf(g, row)
	if err != nil || !asked {
		return err
	}
	id, o := deadletters.ID(g.Run.ID), g.Run.Outcome
	sealed, err := content.Seal(db.Keyring, g.Run.TenantID, id)
	if err != nil {
		return fmt.Errorf("sealing the request of dead letter %s: %w", id, err)
	}
	p.Ids = append(p.Ids, g.Run.ID)
	p.TenantIds = append(p.TenantIds, g.Run.TenantID)
	p.EndpointIds = append(p.EndpointIds, g.Run.EndpointID)
	p.Calls = append(p.Calls, g.Endpoint != nil && g.Endpoint.Call != nil)
	p.ScheduledFor = append(p.ScheduledFor, g.Run.ScheduledFor)
	p.Attempts = append(p.Attempts, int16(g.Run.Attempt))
	p.InfraAttempts = append(p.InfraAttempts, int16(g.Run.InfraAttempt))
	p.Statuses = append(p.Statuses, string(o.Status))
	p.Reasons = append(p.Reasons, string(o.Reason))
	p.StatusCodes = append(p.StatusCodes, int16(o.StatusCode))
	p.Errors = append(p.Errors, pg.Storable(o.Error))
	p.ContentTypes = append(p.ContentTypes, pg.Storable(o.ContentType))
	p.Bodies = append(p.Bodies, pg.NotNull(o.Body[:min(len(o.Body), deadletters.MaxBody)]))
	p.Requests = append(p.Requests, sealed.Data)
	p.SealedUnder = append(p.SealedUnder, sealed.KeyID)
	return nil
}

// contentOf returns the request of a run that was given up. If the version that made it is no
// longer kept, it is that of the current one. asked is false if the endpoint was archived and its
// configuration asks for no dead letter.
func contentOf(g GivenUp, row *dbsqlc.DeadLetterRequestsRow) (content deadletters.Content, asked bool, err error) {
	var spec endpoints.Spec
	if g.Endpoint != nil {
		spec = g.Endpoint.Spec
	}
	if row.Version > 0 {
		if err := spec.UnmarshalJSON(row.Spec); err != nil {
			return content, false, fmt.Errorf("decoding version %d of endpoint %s: %w", row.Version, endpoints.ID(g.Run.EndpointID), err)
		}
	}
	if g.Endpoint == nil && (row.Version == 0 || !spec.GivesUp(history.FinishedOf(g.Run))) {
		return content, false, nil
	}
	override, err := endpoints.ParseOverride(row.Request)
	if err != nil {
		return content, false, fmt.Errorf("decoding the request of run %s: %w", g.Run.ID, err)
	}
	spec = override.Apply(spec)
	call := g.call()
	return deadletters.Content{
		Call:    call != nil,
		Request: spec.Whole(),
		Key:     cmp.Or(override.SentKey, pg.OrZero(call).SentKey, runs.FirstAttempt(g.Run.ScheduledFor, g.Run.EndpointID).String()),
		DueFor:  cmp.Or(override.DueFor, pg.OrZero(call).DueFor, g.Run.ScheduledFor),
		Version: row.Version,
	}, true, nil
}

// AddChainStarts adds the chains that a finished run starts to an insert.
func AddChainStarts(p *dbsqlc.ChainStartInsertParams, list []endpoints.ChainStart, run runs.Run) {
	for _, start := range list {
		p.RunIds = append(p.RunIds, run.ID)
		p.EndpointIds = append(p.EndpointIds, run.EndpointID)
		p.TenantIds = append(p.TenantIds, run.TenantID)
		p.ScheduledFor = append(p.ScheduledFor, run.ScheduledFor)
		p.Outcomes = append(p.Outcomes, string(start.Outcome))
		p.Chains = append(p.Chains, start.Chain)
	}
}

// Dropped returns the statements that record the end of a due time with an attempt that the change
// of an endpoint dropped: its dead letter, the chains that it starts, and notices. It takes this
// end from the endpoint. A run that retention has removed leaves nothing.
func (db *States) Dropped(ctx context.Context, q dbsqlc.DBTX, e *endpoints.Endpoint, now time.Time) ([]pg.Statement, error) {
	if !e.Dropped {
		return nil, nil
	}
	given, starts := *e, e.ChainStarts
	e.Dropped, e.GivenUp, e.ChainStarts = false, false, nil
	last := e.State.LastRun
	run, found, err := history.Finished(ctx, q, db.DB, e.TenantID, runs.NewID(last.Slot, e.ID, last.Attempt, last.InfraAttempt))
	if err != nil || !found {
		return nil, err
	}
	if err := history.AddBody(ctx, q, db.DB, &run); err != nil {
		return nil, err
	}
	var list []pg.Statement
	if given.GivenUp {
		if list, err = db.DeadLetters(ctx, q, now, []GivenUp{{run, e}}); err != nil {
			return nil, err
		}
	}
	if len(starts) > 0 {
		var p dbsqlc.ChainStartInsertParams
		AddChainStarts(&p, starts, run)
		list = append(list, func(q dbsqlc.DBTX) error { return db.Q.ChainStartInsert(ctx, q, p) })
	}
	var alarms noticestore.EpisodeChanges
	alarms.GaveUp(&given, run)
	return append(list, alarms.Writes(ctx, db.DB, now)...), nil
}
