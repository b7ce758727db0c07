package endpoints

import (
	"context"

	"rubato/internal/schedule"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// PoisonCron makes every decision about an endpoint panic. Its configuration must be in the cache.
func (db *States) PoisonCron(id [16]byte) {
	db.configs.mu.Lock()
	defer db.configs.mu.Unlock()
	known := db.configs.known[id]
	poisoned := *known.Value.(*Config) //nolint:forcetypeassert // Nothing else is put in.
	poisoned.cron, poisoned.spec.BaselineInterval, poisoned.spec.BaselineCron = new(schedule.Cron), 0, "* * * * *"
	known.Value = &poisoned
}

// ListStatement returns the statement of a list of endpoints.
func ListStatement(p dbsqlc.EndpointListParams) pg.Statement {
	e := NewStore(NewStates(&pg.DB{Q: dbsqlc.New()}, 0))
	return func(q dbsqlc.DBTX) error { _, err := e.rows(context.Background(), q, p); return err }
}
