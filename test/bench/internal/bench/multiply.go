package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/client"
)

// When the endpoints that [installation.multiply] makes are due, as an expression of n, their number from 1, and $1, how many there are.
const (
	// overdue spreads them over the past, 1 ms apart and in another order than they lie on disk.
	overdue = "now() - ((n::bigint * 7919) % $1::int + 1) * interval '1 ms'"
	// faraway spreads them over a day that is a month ahead: none comes due.
	faraway = "now() + interval '30 days' + (n * 86400000.0 / $1::int) * interval '1 ms'"
)

// multiply fills in endpoints by SQL: a million by the API would take longer than what is measured. They are copies of one that is
// registered, columns that do not exist yet included.
func (in *installation) multiply(ctx context.Context, n int, due string) error {
	r, err := in.registrar(1)
	if err != nil {
		return err
	}
	far := time.Now().Add(once)
	if _, err := r.register(ctx, 1, func(int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, 0, once, far) }); err != nil {
		return err
	}
	// The made-up IDs follow one another, as those of endpoints do that are registered one after the other.
	const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
	statements := []string{
		`INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
		 SELECT ` + id + `, tenant_id, version, created_at, updated_at, spec || jsonb_build_object('name', 'bench ' || n)
		 FROM (SELECT * FROM endpoints ORDER BY id DESC LIMIT 1) t, generate_series(1, $1::int) n`,
		`INSERT INTO schedules SELECT made.* FROM (SELECT * FROM schedules ORDER BY endpoint_id DESC LIMIT 1) t, generate_series(1, $1::int) n,
		 LATERAL (SELECT ` + due + ` AS due) at,
		 LATERAL jsonb_populate_record(t::schedules, jsonb_build_object('endpoint_id', ` + id + `, 'due_at', due, 'planned_at', due, 'slot', due)) made`,
	}
	if err := in.db.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		for _, sql := range statements {
			if _, err := c.Exec(ctx, sql, n); err != nil {
				return err
			}
		}
		// What was inserted is told to the statistics up to a second later: autovacuum would then read all of it again while it is measured.
		_, err := c.Exec(ctx, "SELECT pg_stat_force_next_flush()")
		return err
	}); err != nil {
		return fmt.Errorf("filling in %d endpoints: %w", n, err)
	}
	return in.db.settle(ctx)
}
