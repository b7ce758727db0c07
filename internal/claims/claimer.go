package claims

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// maxBatch bounds one claim: trials show no gain from larger batches, and a long statement would hold its row locks for long.
const maxBatch = 500

// lastClaim is how long a claim under way may go on when the claimer ends.
const lastClaim = 5 * time.Second

// Taker is the worker whose claimer this is.
type Taker interface {
	// Room returns how many claims the worker can take now, none included, and how far ahead.
	Room() (limit int, horizon time.Duration)
	// Share returns those of the due tenants of which the worker would take more although it has no room for whatever is due next, and how
	// many of each.
	Share(due [][16]byte) (wanted [][16]byte, each int)
	// Take hands over claims. The database read its clock, now, between sent and the call.
	Take(list []Claim, now, sent time.Time)
}

// ClaimerConfig says what a claimer works with. Every field is required.
type ClaimerConfig struct {
	Worker       [16]byte
	Store        Store
	Taker        Taker
	Rules        Rules
	PollInterval time.Duration // between claims while nothing calls for one; jittered by a tenth
	Logger       *slog.Logger
	Metrics      *Metrics
}

// Claimer claims what comes due: every poll interval, at once when it is woken, and again at once while more is due than a claim took.
// While more is due than the worker can take, tenants share what it takes.
type Claimer struct {
	cfg   ClaimerConfig
	wake  chan struct{}
	more  atomic.Bool  // the last claim may have left something behind of what it looked at
	reach atomic.Int64 // how far ahead that claim looked, a [time.Duration]
	crowd crowd
	heard heard
	floor Floor
}

// NewClaimer returns a claimer that does nothing until Run.
func NewClaimer(cfg ClaimerConfig) *Claimer {
	return &Claimer{cfg: cfg, wake: make(chan struct{}, 1)}
}

// Wake asks for a claim at once. It never blocks; many calls during one claim ask for one more.
func (c *Claimer) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Refill tells that the taker has room again, as far ahead as horizon. It asks for a claim at once where the last one left something
// behind, or looked less far ahead.
func (c *Claimer) Refill(horizon time.Duration) {
	if c.more.Load() || horizon > time.Duration(c.reach.Load()) {
		c.Wake()
	}
}

// Run claims until ctx ends. A claim that fails is logged and tried again at the next poll.
func (c *Claimer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		limit, err := c.claimOnce(ctx)
		if err != nil {
			c.more.Store(false)
			if ctx.Err() == nil {
				c.cfg.Logger.Warn("claiming failed; trying again at the next poll", "error", err)
			}
		}
		if !c.more.Load() || !c.room(limit) { // For less than a claim just took, the taker says when it is worth another one.
			c.pause(ctx)
		}
	}
}

// pause returns at the next poll, or before it when a claim is wanted and there is room for one. While something due is left behind it
// looks whether that is a tenant's that the worker has room for.
func (c *Claimer) pause(ctx context.Context) {
	poll := time.NewTimer(c.jittered())
	defer poll.Stop()
	var look <-chan time.Time // nil: there is nothing to look for, so an idle worker is not woken for it
	if c.crowd.left {
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
			if c.room(1) || c.crowd.left && c.more.Load() && c.wanted(ctx) {
				return
			}
			c.more.Store(true) // Whoever woke it meant it: it claims when there is room.
		}
	}
}

// wanted reports whether a tenant waits that the worker has room for, although it has none for whatever is due next. Where the database
// does not say, the next poll tells why.
func (c *Claimer) wanted(ctx context.Context) bool {
	if c.look(ctx) != nil {
		return false
	}
	tenants, _ := c.shares(0)
	return len(tenants) > 0
}

// room reports whether the taker has room for some claims, and for no fewer than least.
func (c *Claimer) room(least int) bool {
	limit, _ := c.cfg.Taker.Room()
	return limit >= max(1, least)
}

// heard is the database's time as an answer told it. Only the claimer's own loop uses it.
type heard struct {
	now  time.Time // zero: it has not answered yet
	sent time.Time // when it was asked
}

// at returns the database's time at an instant of this process, or a moment after it; zero as long as nothing is known.
func (h heard) at(instant time.Time) time.Time {
	if h.now.IsZero() {
		return time.Time{}
	}
	return h.now.Add(instant.Sub(h.sent))
}

// claimOnce claims one batch and returns how many it had room for; c.more then tells whether more may be due. Without room it asks all the
// same: the answer tells the database's time, and that the database is there. When ctx ends, the statement may go on for lastClaim, because a
// claim whose answer nobody reads keeps its endpoints from everybody until its lock is over. For the same reason Request.Until makes a claim
// void that the database carries out only after it was given up here.
func (c *Claimer) claimOnce(ctx context.Context) (limit int, err error) {
	room, horizon := c.cfg.Taker.Room()
	limit = max(0, min(room, maxBatch))
	givenUp := time.Now().Add(c.cfg.Rules.LockTTL / 4) // A longer claim eats up its own lock.
	limited, cancel := context.WithDeadline(context.WithoutCancel(ctx), givenUp)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastClaim, cancel) })()
	ctx = limited

	r := Request{Worker: c.cfg.Worker, Limit: limit, Horizon: horizon, LockTTL: c.cfg.Rules.LockTTL, Until: c.heard.at(givenUp)}
	if c.crowd.left || limit == 0 {
		if err := c.share(ctx, &r); err != nil {
			return limit, err
		}
	}
	c.floor.Begin(&r)
	sent := time.Now()
	list, now, err := c.cfg.Store.ClaimDue(ctx, r)
	c.floor.Ended(r, list, now, sent)
	if err != nil {
		return limit, fmt.Errorf("claiming up to %d due endpoints: %w", r.Limit, err)
	}
	c.heard = heard{now: now, sent: sent}
	c.reach.Store(int64(r.Horizon))
	c.cfg.Metrics.claimed(r, list, time.Since(sent))
	c.more.Store(c.learn(r, limit, list, now)) // Before the taker has the claims, and can say that it has room for others.
	c.cfg.Taker.Take(list, now, sent)
	return limit, nil
}

// share turns a request for the oldest into one for the oldest of each tenant, where several have something due.
func (c *Claimer) share(ctx context.Context, r *Request) error {
	if err := c.look(ctx); err != nil {
		return err
	}
	if tenants, each := c.shares(r.Limit); len(tenants) > 0 {
		r.Tenants, r.Share, r.Limit, r.Horizon = tenants, each, len(tenants)*each, min(shareHorizon, c.cfg.Rules.Horizon)
	}
	return nil
}

// jittered spreads the polls of many workers, so that they do not all ask at one instant.
func (c *Claimer) jittered() time.Duration {
	tenth := c.cfg.PollInterval / 10
	return c.cfg.PollInterval - tenth + rand.N(2*tenth+1) //nolint:gosec // Spreading needs no secrecy.
}
