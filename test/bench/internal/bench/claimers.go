package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"rubato/internal/claims"
	"rubato/internal/store/items"
	"rubato/internal/store/pg"
)

// claimLimit is the batch size of one claim.
const claimLimit = 200

// claims measures the claim statement under a load.
func (in *installation) claims(ctx context.Context, p *ClaimPoint, span time.Duration) (err error) {
	db, err := pg.Open(ctx, pg.Config{
		URL:             in.db.url(),
		MaxConns:        int32(p.Claimers) + 1,
		ApplicationName: "bench",
	})
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := in.db.pool.Exec(ctx, "VACUUM schedules"); err != nil { // Each load begins without dead tuples.
		return fmt.Errorf("tidying the schedules: %w", err)
	}
	list := make([]*claimer, p.Claimers)
	var filling errgroup.Group
	for n := range list {
		list[n] = &claimer{
			db:    in.db,
			store: items.NewClaims(db),
			rules: claims.Request{
				Worker:  uuid.New(),
				Limit:   claimLimit,
				Horizon: in.settings.Worker.Horizon,
				LockTTL: in.settings.Worker.LockTTL,
			},
		}
		filling.Go(func() error { return list[n].fill(ctx, p.Claimed/p.Claimers) })
	}
	if err := filling.Wait(); err != nil {
		return err
	}
	if p.Snapshot {
		release, fault := in.db.holdSnapshot(ctx)
		if fault != nil {
			return fault
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	before, err := in.parts().usage()
	if err != nil && !errors.Is(err, errNoProc) {
		return err
	}
	end := time.Now().Add(span)
	var group errgroup.Group
	for _, c := range list {
		group.Go(func() error { return c.cycle(ctx, end) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := in.parts().usage()
	if err != nil && !errors.Is(err, errNoProc) {
		return err
	}
	var took []time.Duration
	for _, c := range list {
		took = append(took, c.took...)
		if err := c.handBack(ctx, len(c.held)); err != nil {
			return err
		}
	}
	p.Statements, p.Milli = len(took), spreadOf(took)
	p.CPUMs = milliseconds(after.minus(before).postgres) / float64(max(1, len(took)))
	return nil
}

// holdSnapshot opens a snapshot. Until it is released, vacuum cannot remove any row version that it
// can see.
func (d *database) holdSnapshot(ctx context.Context) (release func() error, err error) {
	tx, err := d.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("opening a snapshot: %w", err)
	}
	if _, err := tx.Exec(ctx, "SELECT FROM schedules LIMIT 1"); err != nil { // The first statement takes the snapshot.
		return nil, errors.Join(fmt.Errorf("opening a snapshot: %w", err), tx.Rollback(ctx))
	}
	return func() error { return tx.Rollback(context.WithoutCancel(ctx)) }, nil
}

// claimer claims endpoints in a loop, and hands back the oldest ones.
type claimer struct {
	db    *database
	store *items.Claims
	rules claims.Request
	floor claims.LowWaterMark
	held  []claims.Claim
	took  []time.Duration
}

// fill claims until the claimer holds a number of endpoints.
func (c *claimer) fill(ctx context.Context, n int) error {
	for len(c.held) < n {
		before := len(c.held)
		if err := c.claim(ctx); err != nil {
			return err
		}
		if len(c.held) == before {
			return errors.New("there is nothing left to claim")
		}
	}
	c.took = nil
	return nil
}

// cycle claims and hands back until an instant.
func (c *claimer) cycle(ctx context.Context, end time.Time) error {
	for time.Now().Before(end) {
		if err := c.claim(ctx); err != nil {
			return err
		}
		if err := c.handBack(ctx, claimLimit); err != nil {
			return err
		}
	}
	return nil
}

func (c *claimer) claim(ctx context.Context) error {
	c.floor.Begin(&c.rules)
	sent := time.Now()
	list, now, err := c.store.ClaimDue(ctx, c.rules)
	c.floor.Ended(c.rules, list, now, sent)
	if err != nil {
		return fmt.Errorf("claiming: %w", err)
	}
	c.took = append(c.took, time.Since(sent))
	c.held = append(c.held, list...)
	return nil
}

// handBack gives the oldest claimed endpoints a new due time behind all others, as the finishes of
// their runs would.
func (c *claimer) handBack(ctx context.Context, n int) error {
	n = min(n, len(c.held))
	ids, tokens := make([][16]byte, n), make([]int64, n)
	for i, held := range c.held[:n] {
		ids[i], tokens[i] = held.EndpointID, held.Token
	}
	c.held = c.held[n:]
	_, err := c.db.pool.Exec(ctx, `
		UPDATE schedules s
		SET due_at = clock_timestamp(), planned_at = clock_timestamp(), slot = clock_timestamp(),
		    claimed_by = NULL, claimed_at = NULL, claim_token = s.claim_token + 1
		FROM unnest($1::uuid[], $2::bigint[]) AS held (endpoint_id, token)
		WHERE s.endpoint_id = held.endpoint_id AND s.claim_token = held.token`, ids, tokens)
	if err != nil {
		return fmt.Errorf("handing %d claims back: %w", n, err)
	}
	return nil
}
