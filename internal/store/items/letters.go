package items

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
	"rubato/internal/store/pg"
)

// givenUp is a run that was given up, with its endpoint.
type givenUp struct {
	run runs.Run
	// endpoint is nil if it was archived during the run. Then the configuration at the claim
	// decides whether the run leaves a dead letter.
	endpoint *endpoints.Endpoint
}

// call returns the call of the run; nil: it is a run of an endpoint.
func (g givenUp) call() *endpoints.Call {
	if g.endpoint == nil {
		return nil
	}
	return g.endpoint.Call
}

// letters adds the statement that inserts the dead letters of the runs that were given up. It reads
// their requests first, which costs a round trip, because runs are seldom given up.
func (b *batch) letters(ctx context.Context) error {
	if len(b.givenUp) == 0 {
		return nil
	}
	var asked dbsqlc.DeadLetterRequestsParams
	for _, g := range b.givenUp {
		asked.EndpointIds = append(asked.EndpointIds, g.run.EndpointID)
		asked.Slots = append(asked.Slots, g.run.ScheduledFor)
		asked.ClaimedAt = append(asked.ClaimedAt, g.run.ClaimedAt)
	}
	rows, err := b.db.Q.DeadLetterRequests(ctx, b.reader(), asked)
	if err != nil {
		return fmt.Errorf("reading the requests of %d runs that were given up: %w", len(b.givenUp), err)
	}
	p := dbsqlc.DeadLetterInsertParams{CreatedAt: b.now}
	for _, row := range rows {
		if err := b.addLetter(&p, b.givenUp[row.N-1], row); err != nil {
			return err
		}
	}
	if len(p.Ids) == 0 { // Runs of archived endpoints that leave none.
		return nil
	}
	b.queued = append(b.queued, func(q dbsqlc.DBTX) error { return b.db.Q.DeadLetterInsert(ctx, q, p) })
	return nil
}

// addLetter adds the dead letter of a run to the insert.
func (b *batch) addLetter(p *dbsqlc.DeadLetterInsertParams, g givenUp, row *dbsqlc.DeadLetterRequestsRow) error {
	if row.Chained && g.run.Outcome.Reason == runs.DeadlinePassed {
		return nil // Its chain was canceled or timed out: steps have no deadline of their own.
	}
	content, asked, err := contentOf(g, row)
	if err != nil || !asked {
		return err
	}
	id, o := deadletters.ID(g.run.ID), g.run.Outcome
	sealed, err := content.Seal(b.db.Keyring, g.run.TenantID, id)
	if err != nil {
		return fmt.Errorf("sealing the request of dead letter %s: %w", id, err)
	}
	p.Ids = append(p.Ids, g.run.ID)
	p.TenantIds = append(p.TenantIds, g.run.TenantID)
	p.EndpointIds = append(p.EndpointIds, g.run.EndpointID)
	p.Calls = append(p.Calls, g.endpoint != nil && g.endpoint.Call != nil)
	p.ScheduledFor = append(p.ScheduledFor, g.run.ScheduledFor)
	p.Attempts = append(p.Attempts, int16(g.run.Attempt))
	p.InfraAttempts = append(p.InfraAttempts, int16(g.run.InfraAttempt))
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
func contentOf(g givenUp, row *dbsqlc.DeadLetterRequestsRow) (content deadletters.Content, asked bool, err error) {
	var spec endpoints.Spec
	if g.endpoint != nil {
		spec = g.endpoint.Spec
	}
	if row.Version > 0 {
		if err := spec.UnmarshalJSON(row.Spec); err != nil {
			return content, false, fmt.Errorf("decoding version %d of endpoint %s: %w", row.Version, endpoints.ID(g.run.EndpointID), err)
		}
	}
	if g.endpoint == nil && (row.Version == 0 || !spec.GivesUp(history.FinishedOf(g.run))) {
		return content, false, nil
	}
	override, err := endpoints.ParseOverride(row.Request)
	if err != nil {
		return content, false, fmt.Errorf("decoding the request of run %s: %w", g.run.ID, err)
	}
	spec = override.Apply(spec)
	call := g.call()
	return deadletters.Content{
		Call:    call != nil,
		Request: spec.Whole(),
		Key:     cmp.Or(override.SentKey, pg.OrZero(call).SentKey, runs.FirstAttempt(g.run.ScheduledFor, g.run.EndpointID).String()),
		DueFor:  cmp.Or(override.DueFor, pg.OrZero(call).DueFor, g.run.ScheduledFor),
		Version: row.Version,
	}, true, nil
}

// forgetLetters deletes dead letters past their retention, of which zero is none, and the oldest of
// each tenant beyond [deadletters.MaxPerTenant].
func (s *Sweeps) forgetLetters(ctx context.Context, now time.Time, keep time.Duration) error {
	for more := keep > 0; more; {
		rows, err := s.db.Q.DeadLetterDropBefore(ctx, s.db.Sweeps, now.Add(-keep))
		if err != nil {
			return fmt.Errorf("forgetting old dead letters: %w", pg.Translate(err))
		}
		more = rows > 0
	}
	if _, err := s.db.Q.DeadLetterDropBeyond(ctx, s.db.Sweeps, deadletters.MaxPerTenant); err != nil {
		return fmt.Errorf("forgetting dead letters beyond %d of a tenant: %w", deadletters.MaxPerTenant, pg.Translate(err))
	}
	return nil
}
