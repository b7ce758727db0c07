package claims

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// lookPeriod is how often a claimer looks whose endpoints are due, while more is due than it claims: a tenant that comes due meanwhile
	// waits so long at most.
	lookPeriod = 250 * time.Millisecond
	// lookAgain is how soon it looks again when somebody had less than a share: the others need not leave room for it.
	lookAgain = 25 * time.Millisecond
	// shareHorizon is how far ahead shares are claimed: far enough that who comes due between two looks is not late.
	shareHorizon = time.Second
)

// crowd is what a claimer knows of the tenants that wait while more is due than it claims.
type crowd struct {
	left    bool // something that is due may be left behind
	short   bool // somebody had less than a share
	tenants [][16]byte
	looked  time.Time // when these were those with something due
	turn    int       // who is first where there are more of them than a claim takes
}

// look finds out whose endpoints are due, where that is not known from a moment ago.
func (c *Claimer) look(ctx context.Context) error {
	known := time.Since(c.crowd.looked)
	if known < lookAgain || known < lookPeriod && !c.crowd.short {
		return nil
	}
	tenants, err := c.cfg.Store.DueTenants(ctx, min(shareHorizon, c.cfg.Rules.Horizon))
	if err != nil {
		return fmt.Errorf("asking which tenants have due endpoints: %w", err)
	}
	c.crowd.tenants, c.crowd.looked, c.crowd.short = tenants, time.Now(), false
	return nil
}

// shares returns whose endpoints are to be claimed next and how many of each; nobody where the oldest are, whoever's they are. limit is
// how many the taker can take; where that is none, it may still want those of tenants of which it has few.
func (c *Claimer) shares(limit int) (tenants [][16]byte, each int) {
	tenants = c.crowd.tenants
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

// inTurn returns limit of the tenants, others every time, or all where they are no more than that.
func (c *Claimer) inTurn(tenants [][16]byte, limit int) [][16]byte {
	if len(tenants) <= limit {
		return tenants
	}
	first := c.crowd.turn % len(tenants)
	c.crowd.turn = first + limit
	return slices.Concat(tenants[first:], tenants[:first])[:limit]
}

// learn takes in what a claim found, where there was room for limit, and reports whether more may be had at once.
func (c *Claimer) learn(r Request, limit int, list []Claim, now time.Time) (more bool) {
	full := len(list) == r.Limit
	switch {
	case limit <= 0:
		c.crowd.left, c.crowd.short = true, len(r.Tenants) > 0 && !full // What else is due nobody knows.
	case len(r.Tenants) > 0:
		c.crowd.left, c.crowd.short = full, !full
		return true // Shares look less far ahead: where they were not all taken, the next claim finds what there is.
	default:
		c.crowd.left = full && allDue(list, now)
	}
	return full
}

// allDue reports whether every claim is due already: where one is not, everything that is due was taken.
func allDue(list []Claim, now time.Time) bool {
	for _, l := range list {
		if l.PlannedAt.After(now) {
			return false
		}
	}
	return true
}
