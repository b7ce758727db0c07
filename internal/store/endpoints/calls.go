package endpoints

import (
	"context"
	"fmt"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// CallVersion is the version of every call, because a call never changes.
const CallVersion = 1

// loadCalls adds the calls among the wanted configurations that are not endpoints, and returns
// them.
func (db *States) loadCalls(
	ctx context.Context, tx dbsqlc.DBTX, versions map[[16]byte]int64, found map[[16]byte]*Config, wanted [][16]byte,
) (list []*Config, err error) {
	var asked []dbsqlc.UUID
	for _, id := range wanted {
		if found[id] == nil && versions[id] == CallVersion {
			asked = append(asked, id)
		}
	}
	if len(asked) == 0 {
		return nil, nil
	}
	rows, err := db.Q.CallGetMany(ctx, tx, asked)
	if err != nil {
		return nil, fmt.Errorf("reading %d calls: %w", len(asked), err)
	}
	for _, row := range rows {
		c := db.parse(&dbsqlc.Endpoint{
			ID:        row.ID,
			TenantID:  row.TenantID,
			Version:   CallVersion,
			CreatedAt: row.CreatedAt,
			UpdatedAt: row.CreatedAt,
			Spec:      row.Spec,
		})
		c.call = &endpoints.Call{
			Callback: pg.OrZero(row.CallbackUrl),
			Author:   row.CreatedBy,
			SentKey:  pg.OrZero(row.SentKey),
			DueFor:   pg.OrZero(row.DueFor),
		}
		c.Target.Deadline, c.Target.SentKey, c.Target.DueFor = pg.OrZero(row.DeadlineAt), c.call.SentKey, c.call.DueFor
		found[row.ID] = c
		list = append(list, c)
	}
	return list, nil
}

// Forget removes a call that has ended from the cache of configurations, so that it does not
// displace those of endpoints.
func (db *States) Forget(id [16]byte) { db.configs.forget(id) }

func (c *configs) forget(id [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.known[id]; known != nil {
		c.evict(known)
	}
}

// CallLockMs returns the duration of a full lock of a call.
func CallLockMs(s endpoints.Spec) int32 { return lockMs(s) }

// CallDocument returns the stored form of the spec of a call.
func CallDocument(s *endpoints.Spec) string { return string(documentOf(s)) }
