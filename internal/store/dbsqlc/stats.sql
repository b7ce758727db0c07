-- name: EndpointHealth :many
-- Returns outcomes and latencies of an endpoint's newest runs, by window of due times. If a record
-- of skipped due times began before a window, its share in the window is estimated as evenly
-- spread.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), sample AS MATERIALIZED (
    SELECT r.scheduled_for, r.status, r.status_code, r.skipped_from, r.skipped_count,
           (r.dns_us + r.connect_us + r.tls_us + r.wait_us + r.transfer_us)::bigint AS latency_us
    FROM runs r
    WHERE r.endpoint_id = sqlc.arg('endpoint_id')::uuid
      AND r.tenant_id = sqlc.arg('tenant_id')::uuid
      AND r.id >= sqlc.arg('from_id')::uuid
      AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
)
SELECT w.window_ms::bigint AS window_ms,
       count(*) FILTER (WHERE s.status <> 'skipped') AS runs,
       count(*) FILTER (WHERE s.status = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE s.status IN ('failed', 'timed_out')) AS failed,
       coalesce(sum(CASE WHEN s.skipped_from <= w.since
                         THEN ceil((s.skipped_count - 1) * extract(EPOCH FROM s.scheduled_for - w.since) / extract(EPOCH FROM s.scheduled_for - s.skipped_from))
                         ELSE coalesce(s.skipped_count, 1) END) FILTER (WHERE s.status = 'skipped'), 0)::bigint AS skipped,
       coalesce(percentile_disc(0.50) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p50_us,
       coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p95_us,
       coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p99_us
FROM (SELECT n.window_ms, (SELECT now FROM clock) - n.window_ms * interval '1 ms' AS since
      FROM unnest(sqlc.arg('windows_ms')::bigint[]) AS n(window_ms)) w
LEFT JOIN sample s ON s.scheduled_for > w.since
GROUP BY w.window_ms
ORDER BY w.window_ms;

-- name: TenantGauge :one
-- Counts the claimable endpoints and the live runs of a tenant, and returns how long the first
-- endpoint has waited. Unclaimed rows are found by the index by tenant, so due rows of other
-- tenants cost nothing. Expired claims are read from the low end of the index on due_at. Each scan
-- reads at most max_rows entries.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), free AS MATERIALIZED (
    SELECT s.endpoint_id, s.planned_at
    FROM schedules s
    WHERE s.tenant_id = sqlc.arg('tenant_id')::uuid
      AND s.claimed_by IS NULL
      AND s.due_at <= (SELECT now FROM clock)
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
), head AS MATERIALIZED (
    SELECT s.planned_at, s.tenant_id
    FROM schedules s
    WHERE s.claimed_by IS NOT NULL
      AND s.run_id IS NULL
      AND s.due_at <= (SELECT now FROM clock)
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
), due AS MATERIALIZED (
    SELECT f.planned_at
    FROM free f
    UNION ALL
    SELECT h.planned_at
    FROM head h
    WHERE h.tenant_id = sqlc.arg('tenant_id')::uuid
)
SELECT (SELECT now FROM clock)::timestamptz AS at,
       least(count(*), sqlc.arg('max_rows')::int)::bigint AS due,
       coalesce(extract(EPOCH FROM (SELECT now FROM clock) - min(d.planned_at)), 0)::float8 AS oldest_seconds,
       (SELECT count(*) FROM live_runs l WHERE l.tenant_id = sqlc.arg('tenant_id')::uuid)::bigint AS running
FROM due d;

-- name: TenantRuns :many
-- Returns outcome counts, start lag and latency of a tenant's newest runs by status. The row with
-- an empty status covers all of them.
WITH sample AS MATERIALIZED (
    SELECT r.scheduled_for, r.status, r.status_code,
           (extract(EPOCH FROM r.lag) * 1000000)::bigint AS lag_us,
           (r.dns_us + r.connect_us + r.tls_us + r.wait_us + r.transfer_us)::bigint AS latency_us
    FROM run_lags r
    WHERE r.tenant_id = sqlc.arg('tenant_id')::uuid
      AND r.id >= sqlc.arg('from_id')::uuid
      AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
)
SELECT coalesce(s.status, '')::text AS status,
       count(*)::bigint AS runs,
       min(s.scheduled_for)::timestamptz AS since,
       coalesce(percentile_disc(0.50) WITHIN GROUP (ORDER BY s.lag_us), 0)::bigint AS lag_p50_us,
       coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY s.lag_us), 0)::bigint AS lag_p95_us,
       coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY s.lag_us), 0)::bigint AS lag_p99_us,
       coalesce(percentile_disc(0.50) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p50_us,
       coalesce(percentile_disc(0.95) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p95_us,
       coalesce(percentile_disc(0.99) WITHIN GROUP (ORDER BY s.latency_us) FILTER (WHERE s.status_code IS NOT NULL), 0)::bigint AS p99_us
FROM sample s
GROUP BY GROUPING SETS ((s.status), ())
HAVING count(*) > 0;

-- name: WorkerList :many
-- Returns the newest workers. A worker without a recent heartbeat is silent, unless it has shut
-- down.
SELECT id, name, version, slots, busy, started_at, heartbeat_at,
       (CASE
            WHEN state <> 'inactive'
                AND heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
                THEN 'silent'
            ELSE state END)::text AS state
FROM workers
ORDER BY started_at DESC, id
LIMIT sqlc.arg('max_rows')::int;
