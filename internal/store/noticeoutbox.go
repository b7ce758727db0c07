package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
)

// noticeLook is how many notices that are due are looked at for those that are claimed.
const noticeLook = 500

// Claim takes notices that are due, as many as there is room for, for as long as lock; after it anybody may take them again.
func (s *Notices) Claim(ctx context.Context, room notices.Capacity, lock time.Duration) (list []*notices.Delivery, err error) {
	claimed, err := s.db.q.NoticeClaim(ctx, s.db.pool, dbsqlc.NoticeClaimParams{
		Now: s.db.now(), LockMs: lock.Milliseconds(), LookRows: noticeLook, MaxRows: int32(room.Limit), //nolint:gosec // Tens.
		PerRule: int32(room.PerRule), PerTenant: int32(room.PerTenant), //nolint:gosec // Tens.
		FullRules: notNull(room.FullRules), FullTenants: notNull(room.FullTenants),
	})
	if err != nil {
		return nil, fmt.Errorf("claiming up to %d notices: %w", room.Limit, translate(err))
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	p := dbsqlc.NoticeListClaimedParams{}
	for _, c := range claimed {
		p.Ids = append(p.Ids, c.ID)
	}
	err = s.db.snapshot(ctx, func(tx pgx.Tx) error {
		if p.Now, err = s.db.decisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		rows, err := s.db.q.NoticeListClaimed(ctx, tx, p)
		if err != nil {
			return fmt.Errorf("reading %d claimed notices: %w", len(p.Ids), err)
		}
		for _, row := range rows {
			list = append(list, parcelOf(row, p.Now))
		}
		return nil
	})
	return list, err
}

// parcelOf returns a notice that was claimed. One that cannot be read is a parcel, too: were it an error, what was claimed with it would wait
// for it, and for ever.
func parcelOf(row *dbsqlc.NoticeListClaimedRow, now time.Time) *notices.Delivery {
	channel := row.OwnChannel
	if channel == nil {
		channel = row.Channel
	}
	n, fault := noticeOf(&dbsqlc.NoticeGetRow{
		ID: row.ID, Kind: row.Kind, Number: row.Number, CreatedAt: row.CreatedAt, State: string(notices.Waiting), Attempts: row.Attempts,
		Held: row.Held, Cause: row.Cause, EpisodeID: row.EpisodeID, Rule: row.Rule, Event: row.Event, EndpointID: row.EndpointID, OpenedAt: row.OpenedAt,
		ClosedAt: row.ClosedAt, Detail: row.Detail, EndpointName: row.EndpointName,
	})
	p := &notices.Delivery{
		Notice: n, TenantID: row.TenantID, RuleID: row.RuleID, Token: row.ClaimToken, RuleGone: channel == nil, BeginUnsent: row.Untold,
		EarlierEndQueued: row.Behind, Overtaken: row.Overtaken, HeldUntil: row.HeldUntil,
		SecretsVersion: row.SecretsVersion, Now: now,
		Remind: ms(orZero(row.RemindMs)), Fault: fault,
	}
	_ = json.Unmarshal(row.Spec, &p.Spec) // What cannot be read of it is left out, because the notice matters more.
	p.Host = hostOf(p.Spec.URL)
	var err error
	if p.Labels, err = textMap(row.EndpointLabels); err != nil {
		p.Fault = errors.Join(p.Fault, fmt.Errorf("reading the labels of endpoint %s: %w", p.EndpointID, err))
	}
	if p.RuleGone {
		return p
	}
	if err := json.Unmarshal(channel, &p.Channel); err != nil {
		p.Fault = errors.Join(p.Fault, fmt.Errorf("reading the channel of the notice rule %q, which can be stored anew: %w", p.Rule, err))
	}
	return p
}

// hostOf returns the host of a URL, with its port. The rest of the URL may hold what is secret.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// End ends a notice, unless somebody else has claimed it since; it reports whether it did.
func (s *Notices) End(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) (bool, error) {
	rows, err := s.db.q.NoticeEnd(ctx, s.db.pool, dbsqlc.NoticeEndParams{
		ID: p.ID, ClaimToken: p.Token, State: string(state), Now: s.db.now(), Attempts: int32(p.Attempts), //nolint:gosec // At most tens.
		StatusCode: answeredWith(r), Error: storable(cmp.Or(r.Error, r.Note)),
	})
	if err != nil {
		return false, fmt.Errorf("ending notice %s as %s: %w", p.ID, state, translate(err))
	}
	return rows > 0, nil
}

// Postpone lets a notice be sent after a time, unless somebody else has claimed it since; it reports whether it did. held says that a
// maintenance window keeps it.
func (s *Notices) Postpone(ctx context.Context, p *notices.Delivery, wait time.Duration, held bool, r notices.Result) (bool, error) {
	rows, err := s.db.q.NoticePostpone(ctx, s.db.pool, dbsqlc.NoticePostponeParams{
		ID: p.ID, ClaimToken: p.Token, Now: s.db.now(), WaitMs: wait.Milliseconds(), Attempts: int32(p.Attempts), //nolint:gosec // At most tens.
		StatusCode: answeredWith(r), Error: storable(r.Error), Held: held,
	})
	if err != nil {
		return false, fmt.Errorf("postponing notice %s: %w", p.ID, translate(err))
	}
	return rows > 0, nil
}

func answeredWith(r notices.Result) *int32 {
	if r.StatusCode == 0 {
		return nil
	}
	return new(int32(r.StatusCode)) //nolint:gosec // Three digits.
}

// maxBacklog bounds what is counted.
const maxBacklog = 10_000

// Backlog returns how many notices wait, and for how long the oldest of them has, those apart that maintenance windows hold.
func (s *Notices) Backlog(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	row, err := s.db.q.NoticeBacklog(ctx, s.db.pool, dbsqlc.NoticeBacklogParams{Now: s.db.now(), MaxRows: maxBacklog})
	if err != nil {
		return 0, 0, fmt.Errorf("counting notices that wait: %w", translate(err))
	}
	return int(row.Waiting), time.Duration(row.OldestSeconds * float64(time.Second)), nil
}
