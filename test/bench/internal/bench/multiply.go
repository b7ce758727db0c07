package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"rubato/client"
)

// SQL expressions for the due times of the copies of [installation.multiply]. n is the number of
// the copy from 1, $1 the number of copies.
const (
	// overdue spreads due times over the past, 1 ms apart, in an order that differs from the one on
	// disk.
	overdue = "now() - ((n::bigint * 7919) % $1::int + 1) * interval '1 ms'"
	// faraway spreads due times over a day in a month, so that no endpoint comes due.
	faraway = "now() + interval '30 days' + (n * 86400000.0 / $1::int) * interval '1 ms'"
)

// multiply copies a registered endpoint by SQL, because the API would need longer for a million
// than the measurement takes. It copies all columns, including future ones.
func (in *installation) multiply(ctx context.Context, n int, due string) error {
	r, err := in.registrar(1)
	if err != nil {
		return err
	}
	far := time.Now().Add(once)
	if _, err := r.register(ctx, 1, func(int) client.EndpointSpec { return in.db.lab.endpoint(groupOther, 0, once, far) }); err != nil {
		return err
	}
	// The IDs are consecutive, like those of endpoints that are registered one after the other.
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
		// Statistics of the insert arrive up to a second later; autovacuum would then read the
		// table during the measurement.
		_, err := c.Exec(ctx, "SELECT pg_stat_force_next_flush()")
		return err
	}); err != nil {
		return fmt.Errorf("filling in %d endpoints: %w", n, err)
	}
	return in.db.settle(ctx)
}
