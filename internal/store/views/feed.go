package views

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"rubato/internal/errs"
	"rubato/internal/feed"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
	"rubato/internal/store/pg"
)

// maxLive bounds the live runs in one page of the feed. It exceeds the concurrent runs of a tenant.
const maxLive = 20_000

// Feed reads events. It implements feed.Reader.
type Feed struct {
	db *pg.DB
}

var _ feed.Reader = (*Feed)(nil)

// NewFeed returns the reader of events.
func NewFeed(db *pg.DB) *Feed { return &Feed{db: db} }

// Head implements feed.Reader.
func (s *Feed) Head(ctx context.Context) (position feed.Position, now time.Time, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		head, err := s.db.Q.EventHead(ctx, tx, s.db.Now())
		position, now = before(head.Until, head.Now), head.Now
		return err
	})
	return position, now, err
}

// before returns the position in front of a transaction's events.
func before(txid int64, at time.Time) feed.Position {
	return feed.Position{
		TxID: txid,
		Row:  -1,
		At:   at,
	}
}

// Read implements feed.Reader.
func (s *Feed) Read(ctx context.Context, q feed.Query) (page feed.Page, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		head, err := s.db.Q.EventHead(ctx, tx, s.db.Now())
		if err != nil {
			return fmt.Errorf("reading the end of the feed: %w", err)
		}
		if q.After.TxID > head.Last {
			return errs.New(errs.Malformed, "invalid_event_id", "the event id is not of this server's events; connect again without one")
		}
		page = feed.Page{}
		scan := feedScan{
			Feed:  s,
			tx:    tx,
			q:     q,
			until: head.Until,
		}
		if err := scan.read(ctx, &page); err != nil {
			return err
		}
		if !page.More {
			page.Next = q.After
			if head.Until > q.After.TxID { // Otherwise an older transaction is still open.
				page.Next = before(head.Until, head.Now)
			}
		}
		return nil
	})
	return page, err
}

// feedScan reads one page of the feed in one snapshot. until is the low-water mark: the oldest
// transaction that is still open. Events at or above it are not read, because an older transaction
// may still commit before them.
type feedScan struct {
	*Feed

	tx    pgx.Tx
	q     feed.Query
	until int64
}

func (l feedScan) read(ctx context.Context, page *feed.Page) error {
	changes, err := l.changes(ctx)
	if err != nil {
		return err
	}
	finished, end, err := l.finished(ctx)
	if err != nil {
		return err
	}
	page.Events = slices.Concat(changes, finished)
	slices.SortFunc(page.Events, func(a, b feed.Event) int { return comparePositions(a.Position, b.Position) })
	// If one kind of event has more rows, the page ends there. Otherwise a later event of the other
	// kind would be sent first.
	if len(changes) == l.q.Limit {
		cut(page, changes[len(changes)-1].Position)
	}
	if end != nil {
		cut(page, *end)
	}
	if l.q.Asks(feed.RunStarted) {
		page.Live, err = l.live(ctx)
	}
	return err
}

// comparePlaces orders positions by transaction; within one, changes precede runs.
func comparePositions(a, b feed.Position) int {
	return cmp.Or(cmp.Compare(a.TxID, b.TxID), cmp.Compare(positionClass(a), positionClass(b)), cmp.Compare(a.Row, b.Row), slices.Compare(a.Run[:], b.Run[:]))
}

// placeClass returns 0 for a change and 1 for a run.
func positionClass(p feed.Position) int {
	if p.Run == ([16]byte{}) {
		return 0
	}
	return 1
}

func (l feedScan) changes(ctx context.Context) ([]feed.Event, error) {
	kinds := []string{}
	for _, t := range feed.Types() {
		if t != feed.RunStarted && t != feed.RunFinished && l.q.Asks(t) {
			kinds = append(kinds, string(t))
		}
	}
	if len(kinds) == 0 {
		return nil, nil
	}
	after := l.q.After.Row
	if l.q.After.Run != ([16]byte{}) { // All changes of this transaction precede its runs.
		after = math.MaxInt64
	}
	rows, err := l.db.Q.EventList(ctx, l.tx, dbsqlc.EventListParams{
		TenantID:   l.q.TenantID,
		AfterTxid:  l.q.After.TxID,
		AfterID:    after,
		Until:      l.until,
		EndpointID: pg.Given(l.q.EndpointID),
		Kinds:      kinds,
		MaxRows:    int32(l.q.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	list := make([]feed.Event, len(rows))
	for i, row := range rows {
		list[i] = feed.Event{
			Type:       feed.Type(row.Kind),
			At:         row.At,
			EndpointID: row.EndpointID,
			Position: feed.Position{
				TxID: row.Txid,
				Row:  row.ID,
				At:   row.At,
			},
		}
		if err := readDetail(&list[i], row.Detail); err != nil {
			return nil, fmt.Errorf("reading event %d: %w", row.ID, err)
		}
	}
	return list, nil
}

func readDetail(e *feed.Event, raw json.RawMessage) error {
	if e.Type == feed.HintSet || e.Type == feed.HintCleared {
		return json.Unmarshal(raw, &e.Hint)
	}
	return json.Unmarshal(raw, &e.Change)
}

// finished returns the events of finished runs. end is the position up to which the page is
// complete, or nil if there are no more runs.
func (l feedScan) finished(ctx context.Context) ([]feed.Event, *feed.Position, error) {
	if !l.q.Asks(feed.RunFinished) && !l.q.Asks(feed.RunStarted) {
		return nil, nil, nil
	}
	var after int64 // Zero: include all runs of the transaction.
	if l.q.After.Run != ([16]byte{}) {
		after = l.q.After.Row
	}
	limit := l.q.Limit + 1 // All runs of the first row may have been sent.
	rows, err := l.db.Q.FinishedRunsList(ctx, l.tx, dbsqlc.FinishedRunsListParams{
		TenantID:  l.q.TenantID,
		AfterTxid: l.q.After.TxID,
		AfterID:   after,
		Until:     l.until,
		MaxRows:   int32(limit),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("listing finished runs: %w", err)
	}
	positions, end := l.positions(rows)
	if len(rows) == limit && end == nil {
		last := rows[limit-1]
		end = &feed.Position{
			TxID: last.Txid,
			Row:  last.ID,
			Run:  [16]byte(slices.Repeat([]byte{0xff}, 16)),
			At:   last.At,
		}
	}
	list, err := l.runsAt(ctx, positions)
	return list, end, err
}

// positions returns the positions of matching runs in rows. end is the last one if the limit is
// reached.
func (l feedScan) positions(rows []*dbsqlc.FinishedRunsListRow) (positions []feed.Position, end *feed.Position) {
	for _, row := range rows {
		for i, id := range row.RunIds {
			position := feed.Position{
				TxID: row.Txid,
				Row:  row.ID,
				Run:  id,
				At:   row.At,
			}
			other := l.q.EndpointID != ([16]byte{}) && row.EndpointIds[i] != l.q.EndpointID
			if other || comparePositions(position, l.q.After) <= 0 {
				continue
			}
			if positions = append(positions, position); len(positions) == l.q.Limit {
				return positions, &position
			}
		}
	}
	return positions, nil
}

// runsAt returns the events of finished runs. It leaves out runs of dropped history partitions.
func (l feedScan) runsAt(ctx context.Context, positions []feed.Position) ([]feed.Event, error) {
	if len(positions) == 0 {
		return nil, nil
	}
	p := dbsqlc.RunFindParams{TenantID: l.q.TenantID}
	for _, position := range positions {
		p.Ids = append(p.Ids, position.Run)
		p.ScheduledFor = append(p.ScheduledFor, runs.ID(position.Run).Slot())
	}
	rows, err := l.db.Q.RunFind(ctx, l.tx, p)
	if err != nil {
		return nil, fmt.Errorf("reading %d runs that finished: %w", len(positions), err)
	}
	found := make(map[[16]byte]runs.Run, len(rows))
	for _, row := range rows {
		found[row.ID] = history.RunOf(row)
	}
	list := make([]feed.Event, 0, len(rows))
	for _, position := range positions {
		if run, there := found[position.Run]; there {
			list = append(list, feed.Event{
				Type:       feed.RunFinished,
				At:         run.FinishedAt,
				EndpointID: run.EndpointID,
				Run:        &run,
				Position:   position,
			})
		}
	}
	return list, nil
}

func (l feedScan) live(ctx context.Context) ([]runs.Run, error) {
	rows, err := l.db.Q.RunListLive(ctx, l.tx, dbsqlc.RunListLiveParams{
		TenantID:   l.q.TenantID,
		EndpointID: pg.Given(l.q.EndpointID),
		MaxRows:    maxLive,
	})
	if err != nil {
		return nil, fmt.Errorf("reading live runs: %w", err)
	}
	list := make([]runs.Run, len(rows))
	for i, row := range rows {
		list[i] = history.LiveRunOf(row)
	}
	return list, nil
}

// cut truncates a page at a position, unless it already ends earlier.
func cut(page *feed.Page, at feed.Position) {
	if page.More && comparePositions(page.Next, at) <= 0 {
		return
	}
	page.Next, page.More = at, true
	page.Events = slices.DeleteFunc(page.Events, func(e feed.Event) bool { return comparePositions(e.Position, at) > 0 })
}
