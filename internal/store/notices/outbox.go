package notices

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/notices"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// noticeCandidates is how many due notices a claim examines. More than it claims, because rules and
// tenants at their limit are skipped.
const noticeCandidates = 500

// Claim claims due notices from the outbox within the limits of room. A claim is a lock: after it
// expires, the notice can be claimed again (at-least-once delivery).
func (s *Store) Claim(ctx context.Context, room notices.Capacity, lock time.Duration) (list []*notices.Delivery, err error) {
	claimed, err := s.db.Q.NoticeClaim(ctx, s.db.Pool, dbsqlc.NoticeClaimParams{
		Now:         s.db.Now(),
		LockMs:      lock.Milliseconds(),
		LookRows:    noticeCandidates,
		MaxRows:     int32(room.Limit),
		PerRule:     int32(room.PerRule),
		PerTenant:   int32(room.PerTenant),
		FullRules:   pg.NotNull(room.FullRules),
		FullTenants: pg.NotNull(room.FullTenants),
	})
	if err != nil {
		return nil, fmt.Errorf("claiming up to %d notices: %w", room.Limit, pg.Translate(err))
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	p := dbsqlc.NoticeListClaimedParams{}
	for _, c := range claimed {
		p.Ids = append(p.Ids, c.ID)
	}
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		if p.Now, err = s.db.DecisionTime(ctx, tx); err != nil {
			return fmt.Errorf("reading the database's time: %w", err)
		}
		rows, err := s.db.Q.NoticeListClaimed(ctx, tx, p)
		if err != nil {
			return fmt.Errorf("reading %d claimed notices: %w", len(p.Ids), err)
		}
		for _, row := range rows {
			list = append(list, deliveryOf(row, p.Now))
		}
		return nil
	})
	return list, err
}

// deliveryOf decodes a claimed notice. A decoding error becomes the Fault of the delivery. If it
// were returned, it would block the other claimed notices forever.
func deliveryOf(row *dbsqlc.NoticeListClaimedRow, now time.Time) *notices.Delivery {
	channel := row.OwnChannel
	if channel == nil {
		channel = row.Channel
	}
	n, fault := noticeOf(&dbsqlc.NoticeGetRow{
		ID:           row.ID,
		Kind:         row.Kind,
		Number:       row.Number,
		CreatedAt:    row.CreatedAt,
		State:        string(notices.Waiting),
		Attempts:     row.Attempts,
		Held:         row.Held,
		Cause:        row.Cause,
		EpisodeID:    row.EpisodeID,
		Rule:         row.Rule,
		Event:        row.Event,
		EndpointID:   row.EndpointID,
		OpenedAt:     row.OpenedAt,
		ClosedAt:     row.ClosedAt,
		Detail:       row.Detail,
		EndpointName: row.EndpointName,
	})
	p := &notices.Delivery{
		Notice:           n,
		TenantID:         row.TenantID,
		RuleID:           row.RuleID,
		Token:            row.ClaimToken,
		RuleGone:         channel == nil,
		BeginUnsent:      row.Untold,
		EarlierEndQueued: row.Behind,
		Overtaken:        row.Overtaken,
		HeldUntil:        row.HeldUntil,
		SecretsVersion:   row.SecretsVersion,
		Now:              now,
		Remind:           pg.Millis(pg.OrZero(row.RemindMs)),
		Fault:            fault,
	}
	_ = json.Unmarshal(row.Spec, &p.Spec) // On an error the notice is sent without these fields.
	p.Host = pg.HostOf(p.Spec.URL)
	var err error
	if p.Labels, err = pg.DecodeTexts(row.EndpointLabels); err != nil {
		p.Fault = errors.Join(p.Fault, fmt.Errorf("reading the labels of endpoint %s: %w", p.EndpointID, err))
	}
	if p.RuleGone {
		return p
	}
	if err := json.Unmarshal(channel, &p.Channel); err != nil {
		p.Fault = errors.Join(p.Fault, fmt.Errorf("reading the channel of the notice rule %q, store the rule again: %w", p.Rule, err))
	}
	return p
}

// End moves a notice to a final state. It returns false if the token is stale, because the notice
// was claimed again.
func (s *Store) End(ctx context.Context, p *notices.Delivery, state notices.State, r notices.Result) (bool, error) {
	rows, err := s.db.Q.NoticeEnd(ctx, s.db.Pool, dbsqlc.NoticeEndParams{
		ID:         p.ID,
		ClaimToken: p.Token,
		State:      string(state),
		Now:        s.db.Now(),
		Attempts:   int32(p.Attempts),
		StatusCode: answeredWith(r),
		Error:      pg.Storable(cmp.Or(r.Error, r.Note)),
	})
	if err != nil {
		return false, fmt.Errorf("ending notice %s as %s: %w", p.ID, state, pg.Translate(err))
	}
	return rows > 0, nil
}

// Postpone schedules a notice for another attempt after wait. held means that a maintenance window
// holds it. It returns false if the token is stale, because the notice was claimed again.
func (s *Store) Postpone(ctx context.Context, p *notices.Delivery, wait time.Duration, held bool, r notices.Result) (bool, error) {
	rows, err := s.db.Q.NoticePostpone(ctx, s.db.Pool, dbsqlc.NoticePostponeParams{
		ID:         p.ID,
		ClaimToken: p.Token,
		Now:        s.db.Now(),
		WaitMs:     wait.Milliseconds(),
		Attempts:   int32(p.Attempts),
		StatusCode: answeredWith(r),
		Error:      pg.Storable(r.Error),
		Held:       held,
	})
	if err != nil {
		return false, fmt.Errorf("postponing notice %s: %w", p.ID, pg.Translate(err))
	}
	return rows > 0, nil
}

func answeredWith(r notices.Result) *int32 {
	if r.StatusCode == 0 {
		return nil
	}
	return new(int32(r.StatusCode))
}

// maxBacklog bounds the count of a backlog, because counting more takes time.
const maxBacklog = 10_000

// Backlog returns the number of waiting notices and the age of the oldest. The age excludes notices
// that maintenance windows hold.
func (s *Store) Backlog(ctx context.Context) (waiting int, oldest time.Duration, err error) {
	row, err := s.db.Q.NoticeBacklog(ctx, s.db.Pool, dbsqlc.NoticeBacklogParams{Now: s.db.Now(), MaxRows: maxBacklog})
	if err != nil {
		return 0, 0, fmt.Errorf("counting waiting notices: %w", pg.Translate(err))
	}
	return int(row.Waiting), time.Duration(row.OldestSeconds * float64(time.Second)), nil
}
