package claims

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// lookPeriod is the time between queries for due tenants while more endpoints are due than the
	// worker claims. It bounds the wait of a tenant that comes due meanwhile.
	lookPeriod = 250 * time.Millisecond
	// lookAgain replaces lookPeriod after a claim in which a tenant had less than its share,
	// because the other tenants need not leave room for it.
	lookAgain = 25 * time.Millisecond
	// shareHorizon is the horizon of shares. It exceeds lookPeriod, so that a tenant that comes due
	// between two queries is not late.
	shareHorizon = time.Second
)

// fairShare is the fair-share state of a claimer while more endpoints are due than it claims. The
// goroutine of Claimer.Run owns it.
type fairShare struct {
	// left is set if due endpoints may be left behind.
	left bool
	// short is set if a tenant had fewer due endpoints than its share.
	short bool
	// tenants are the tenants with due endpoints, as queried at looked.
	tenants [][16]byte
	looked  time.Time
	// turn is the round-robin cursor: the index of the first tenant if a claim cannot take all of
	// them.
	turn int
}

// look queries the tenants with due endpoints, unless the last result is recent enough.
func (c *Claimer) look(ctx context.Context) error {
	known := time.Since(c.fairShare.looked)
	if known < lookAgain || known < lookPeriod && !c.fairShare.short {
		return nil
	}
	tenants, err := c.cfg.Store.DueTenants(ctx, min(shareHorizon, c.cfg.Rules.Horizon), c.cfg.Taker.TagSets())
	if err != nil {
		return fmt.Errorf("asking which tenants have due endpoints: %w", err)
	}
	c.fairShare.tenants, c.fairShare.looked, c.fairShare.short = tenants, time.Now(), false
	return nil
}

// shares returns the tenants for the next claim and the quota of each. It returns none if the claim
// should take the oldest endpoints of all tenants. limit is the room of the taker. If it is zero,
// the taker may still accept tenants below their fair share.
func (c *Claimer) shares(limit int) (tenants [][16]byte, each int) {
	tenants = c.fairShare.tenants
	switch {
	case limit > 0 && len(tenants) < 2:
		return nil, 0
	case limit > 0:
		each = max(1, limit/len(tenants))
	default:
		limit = maxBatch
		if tenants, each = c.cfg.Taker.Share(tenants); len(tenants) == 0 {
			return nil, 0
		}
		each = max(1, min(each, limit/len(tenants)))
	}
	return c.inTurn(tenants, limit), each
}

// inTurn returns up to limit of the tenants, round-robin over successive calls.
func (c *Claimer) inTurn(tenants [][16]byte, limit int) [][16]byte {
	if len(tenants) <= limit {
		return tenants
	}
	first := c.fairShare.turn % len(tenants)
	c.fairShare.turn = first + limit
	return slices.Concat(tenants[first:], tenants[:first])[:limit]
}

// learn updates the fair-share state after a claim with room for limit. It reports whether another
// claim at once may return more.
func (c *Claimer) learn(r Request, limit int, list []Claim, now time.Time) (more bool) {
	full := len(list) == r.Limit
	switch {
	case limit <= 0:
		// Such a claim does not show whether other tenants have due endpoints.
		c.fairShare.left, c.fairShare.short = true, len(r.Tenants) > 0 && !full
	case len(r.Tenants) > 0:
		c.fairShare.left, c.fairShare.short = full, !full
		// Shares have a shorter horizon, so that the next claim may find endpoints beyond it.
		return true
	default:
		c.fairShare.left = full && allDue(list, now)
	}
	return full
}

// allDue reports whether every claim is already due. Otherwise no due endpoint is left, because
// claims are taken in the order of their turns.
func allDue(list []Claim, now time.Time) bool {
	for _, l := range list {
		if l.turn().After(now) {
			return false
		}
	}
	return true
}
