package claims

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxBatch bounds the endpoints per claim. Trials show no gain from larger batches, and a long
// statement holds its row locks for long.
const maxBatch = 500

// lastClaim is how long a claim in flight may continue after the claimer's context has ended.
const lastClaim = 5 * time.Second

// Receiver is the worker that receives the claims. Only the goroutine of Claimer.Run calls it.
type Receiver interface {
	// Room returns the number of claims that the worker can take now, possibly zero, and their
	// horizon.
	Room() (limit int, horizon time.Duration)
	// TagSets returns the tag sets that the worker serves.
	TagSets() TagSets
	// Share returns the due tenants that are below their fair share when the queue is full, and the
	// quota of each.
	Share(due [][16]byte) (wanted [][16]byte, each int)
	// Take passes claims to the worker. The database read its clock, now, between sent and the
	// call.
	Take(list []Claim, now, sent time.Time)
}

// ClaimerConfig configures a claimer. Every field is required.
type ClaimerConfig struct {
	Worker [16]byte
	Store  Store
	Taker  Receiver
	Rules  Rules
	// PollInterval is the time between claims without a wake-up. It is jittered by a tenth.
	PollInterval time.Duration
	Logger       *slog.Logger
	Metrics      *Metrics
}

// Claimer claims due endpoints: at every poll, at once after Wake, and again at once while batches
// are full and the worker has room. If more endpoints are due than the worker can take, tenants
// share its claims fairly. Wake and Refill are safe for concurrent use.
type Claimer struct {
	cfg  ClaimerConfig
	wake chan struct{}
	// more is set if the last claim may have left endpoints within its horizon.
	more atomic.Bool
	// reach is the horizon of the last claim, a [time.Duration].
	reach atomic.Int64
	// claiming is set from before a claim asks for room until its claims are taken.
	claiming atomic.Bool
	// The goroutine of Run owns fairShare, clock and lowWater, so that they need no lock.
	fairShare fairShare
	clock     clockSample
	lowWater  LowWaterMark
}

// NewClaimer returns a claimer. It does nothing until Run.
func NewClaimer(cfg ClaimerConfig) *Claimer {
	return &Claimer{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Wake asks for a claim at once. It never blocks. Calls during one claim are merged into one more
// claim.
func (c *Claimer) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Refill reports that the taker has room for claims up to horizon. It wakes the claimer if the last
// claim left endpoints behind, or had a shorter horizon.
func (c *Claimer) Refill(horizon time.Duration) {
	if c.more.Load() || horizon > time.Duration(c.reach.Load()) {
		c.Wake()
	}
}

// Idle reports whether no claim is under way. A claim that begins later asks the taker for its room
// as it is then.
func (c *Claimer) Idle() bool { return !c.claiming.Load() }

// Run claims until ctx ends. A failed claim is logged and retried at the next poll.
func (c *Claimer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		limit, err := c.claimOnce(ctx)
		if err != nil {
			c.more.Store(false)
			if ctx.Err() == nil {
				c.cfg.Logger.Warn("claiming failed; trying again at the next poll", "error", err)
			}
		}
		// With less room than the last claim had, wait until the taker calls Refill, because a
		// small claim costs the database nearly as much as a large one.
		if !c.more.Load() || !c.room(limit) {
			c.pause(ctx)
		}
	}
}

// pause waits for the next poll. It returns early after a wake-up if the taker has room. While due
// endpoints are left behind, it also looks for under-served tenants every lookPeriod.
func (c *Claimer) pause(ctx context.Context) {
	poll := time.NewTimer(c.jittered())
	defer poll.Stop()
	// look stays nil if no endpoint was left behind, so that an idle worker sleeps.
	var look <-chan time.Time
	if c.fairShare.left {
		ticker := time.NewTicker(lookPeriod)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			return
		case <-look:
			if c.wanted(ctx) {
				return
			}
		case <-c.wake:
			if c.room(1) || c.fairShare.left && c.more.Load() && c.wanted(ctx) {
				return
			}
			// Without room the wake-up stays pending, so that Refill leads to a claim.
			c.more.Store(true)
		}
	}
}

// wanted reports whether an under-served tenant has due endpoints. On a query error it returns
// false, because the next poll logs the error.
func (c *Claimer) wanted(ctx context.Context) bool {
	if c.look(ctx) != nil {
		return false
	}
	tenants, _ := c.shares(0)
	return len(tenants) > 0
}

// room reports whether the taker can take at least one claim and no fewer than least.
func (c *Claimer) room(least int) bool {
	limit, _ := c.cfg.Taker.Room()
	return limit >= max(1, least)
}

// clockSample is the last sample of the database's clock. The goroutine of Claimer.Run owns it.
type clockSample struct {
	now  time.Time // zero: no claim has returned yet
	sent time.Time // when the statement was sent
}

// at returns an estimate of the database's time at an instant of this process. It may be ahead by
// one round trip, but never behind. It is zero without a sample.
func (h clockSample) at(instant time.Time) time.Time {
	if h.now.IsZero() {
		return time.Time{}
	}
	return h.now.Add(instant.Sub(h.sent))
}

// claimOnce claims one batch and returns its limit. Afterwards c.more is set if more endpoints may
// be due. Without room it still queries, because the result proves that the database is available
// and samples its clock.
//
// When ctx ends, the statement may continue for lastClaim, because a claim with an unread result
// keeps its endpoints locked until its lock expires. For the same reason Request.Until voids a
// claim that the database executes after the claimer has given up.
func (c *Claimer) claimOnce(ctx context.Context) (limit int, err error) {
	c.claiming.Store(true)
	defer c.claiming.Store(false)
	room, horizon := c.cfg.Taker.Room()
	limit = max(0, min(room, maxBatch))
	// A longer claim would use up the lock that it grants.
	givenUp := time.Now().Add(c.cfg.Rules.LockTTL / 4)
	limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), givenUp)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastClaim, cancel) })()
	ctx = limited

	r := Request{
		Worker:  c.cfg.Worker,
		Limit:   limit,
		Horizon: horizon,
		LockTTL: c.cfg.Rules.LockTTL,
		TagSets: c.cfg.Taker.TagSets(),
		Until:   c.clock.at(givenUp),
	}
	if c.fairShare.left || limit == 0 {
		if err := c.share(ctx, &r); err != nil {
			return limit, err
		}
	}
	c.lowWater.Begin(&r)
	sent := time.Now()
	list, now, err := c.cfg.Store.ClaimDue(ctx, r)
	c.lowWater.Ended(r, list, now, sent)
	if err != nil {
		return limit, fmt.Errorf("claiming up to %d due endpoints: %w", r.Limit, err)
	}
	c.clock = clockSample{now: now, sent: sent}
	c.reach.Store(int64(r.Horizon))
	c.cfg.Metrics.claimed(r, list, time.Since(sent))
	// This precedes Take, because the taker may call Refill once it has the claims.
	c.more.Store(c.learn(r, limit, list, now))
	c.cfg.Taker.Take(list, now, sent)
	return limit, nil
}

// share turns the request into one with a quota per tenant, if several tenants have due endpoints.
// If the queue is full, it does so for under-served tenants only.
func (c *Claimer) share(ctx context.Context, r *Request) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	if tenants, each := c.shares(r.Limit); len(tenants) > 0 {
		r.Tenants, r.Share, r.Limit, r.Horizon = tenants, each, len(tenants)*each, min(shareHorizon, c.cfg.Rules.Horizon)
	}
	return nil
}

// jittered returns the poll interval with jitter, so that workers do not poll in step.
func (c *Claimer) jittered() time.Duration {
	tenth := c.cfg.PollInterval / 10
	return c.cfg.PollInterval - tenth + rand.N(2*tenth+1) //nolint:gosec // Spreading needs no secrecy.
}
