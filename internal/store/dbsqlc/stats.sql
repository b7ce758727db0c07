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
      AND s.tag_set_id = 0
      AND s.priority = 0
      AND s.due_at <= (SELECT now FROM clock)
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
), apart AS MATERIALIZED (
    SELECT first.planned_at
    FROM tag_sets t
             CROSS JOIN priorities p
             CROSS JOIN LATERAL (SELECT s.planned_at
                                 FROM schedules s
                                 WHERE s.claimed_by IS NULL
                                   AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                   AND s.tenant_id = sqlc.arg('tenant_id')::uuid
                                   AND s.tag_set_id = t.id
                                   AND s.priority = p.priority
                                   AND s.due_at <= (SELECT now FROM clock)
                                 ORDER BY s.due_at
                                 LIMIT sqlc.arg('max_rows')::int) first
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
    SELECT a.planned_at
    FROM apart a
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
-- Returns the newest workers.
SELECT id, name, version, slots, busy, started_at, heartbeat_at, tags, capabilities, exclusive,
       worker_state(w, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), sqlc.arg('silent_ms')::bigint)::text AS state
FROM workers w
ORDER BY started_at DESC, id
LIMIT sqlc.arg('max_rows')::int;

-- name: EndpointLooks :many
-- Groups the newest runs of an endpoint by time and by what they found. A look is a success whose
-- answer can be compared with that of the look before. Looks are grouped by their gap in classes of
-- 2 %, so that a day of runs is few rows; gap_ms is the mean of the class, and null for a run that
-- compared nothing. Runs that a user started are left out, because they may have sent another
-- request.
WITH sample AS MATERIALIZED (
    SELECT r.started_at, r.body_digest, coalesce(r.status_code = 304, false) AS unchanged,
           r.status = 'succeeded' AND (r.status_code = 304 OR r.body_digest IS NOT NULL) AS answered
    FROM runs r
    WHERE r.endpoint_id = sqlc.arg('endpoint_id')::uuid
      AND r.tenant_id = sqlc.arg('tenant_id')::uuid
      AND r.id >= sqlc.arg('from_id')::uuid
      AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
      AND r.status <> 'skipped'
      AND r.source <> 'manual'
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
), compared AS (
    SELECT s.started_at, s.body_digest, s.unchanged, s.answered,
           extract(EPOCH FROM s.started_at - lag(s.started_at) OVER (PARTITION BY s.answered ORDER BY s.started_at))::float8 AS gap,
           lag(s.body_digest) OVER (PARTITION BY s.answered, s.unchanged ORDER BY s.started_at) AS before
    FROM sample s
), looks AS (
    SELECT date_bin(sqlc.arg('step_ms')::bigint * interval '1 ms', c.started_at, sqlc.arg('from_at')::timestamptz) AS at,
           CASE WHEN c.answered AND c.gap > 0 AND (c.unchanged OR c.before IS NOT NULL) THEN c.gap END AS gap,
           -- The upper 16 bits name the compared members. Digests of other members differ without a change.
           NOT c.unchanged AND c.body_digest <> c.before AND (c.body_digest # c.before) >> 48 = 0 AS changed
    FROM compared c
)
SELECT l.at::timestamptz AS at,
       (l.gap IS NOT NULL)::boolean AS compared,
       (l.gap IS NOT NULL AND l.changed)::boolean AS changed,
       coalesce(avg(l.gap) * 1000, 0)::float8 AS gap_ms,
       count(*)::bigint AS runs
FROM looks l
GROUP BY l.at, l.gap IS NOT NULL, l.gap IS NOT NULL AND l.changed, floor(ln(l.gap) * 50)
ORDER BY 1, 2, 3, 4;

-- name: EndpointPauses :many
-- Returns the decisions that begin or end a pause of an endpoint since an instant, and the last one
-- before it. A pause during a run is in the decision of the run's finish. until is in the year 1 if
-- no pause was in force.
SELECT p.at::timestamptz AS at, coalesce(p.until, '0001-01-01 00:00:00+00')::timestamptz AS until
FROM (SELECT d.decided_at AS at, (d.input ->> 'pausedUntil')::timestamptz AS until
      FROM decisions d
      WHERE d.endpoint_id = sqlc.arg('endpoint_id')::uuid
        AND d.id >= coalesce((SELECT o.id
                              FROM decisions o
                              WHERE o.endpoint_id = sqlc.arg('endpoint_id')::uuid AND o.decided_at < sqlc.arg('from_at')::timestamptz
                              ORDER BY o.id DESC
                              LIMIT 1), 0)
      UNION ALL
      SELECT r.finished_at, r.next_run_at
      FROM runs r
      WHERE r.endpoint_id = sqlc.arg('endpoint_id')::uuid
        AND r.id >= sqlc.arg('from_id')::uuid
        AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
        AND r.next_source = 'paused') p
WHERE EXISTS (SELECT 1 FROM endpoints e WHERE e.id = sqlc.arg('endpoint_id')::uuid AND e.tenant_id = sqlc.arg('tenant_id')::uuid)
ORDER BY p.at;

-- name: EndpointLastSteps :many
-- Returns the trace of the last decision in each of some spans of run IDs, without spans that have
-- none. Each span costs one lookup in the index.
SELECT s.number::bigint AS number, r.next_steps
FROM (SELECT unnest(sqlc.arg('numbers')::bigint[]) AS number,
             unnest(sqlc.arg('from_ids')::uuid[]) AS from_id,
             unnest(sqlc.arg('to_ids')::uuid[]) AS to_id) s
         CROSS JOIN LATERAL (SELECT h.next_steps
                             FROM runs h
                             WHERE h.endpoint_id = sqlc.arg('endpoint_id')::uuid
                               AND h.tenant_id = sqlc.arg('tenant_id')::uuid
                               AND h.id >= s.from_id
                               AND h.id < s.to_id
                               AND h.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
                             ORDER BY h.id DESC
                             LIMIT 1) AS r
WHERE r.next_steps IS NOT NULL
ORDER BY s.number;
