-- name: ScheduleGauge :one
-- How many endpoints could be claimed at this moment, and for how long the one that was planned first has waited. It looks at the
-- heads of the indexes on due_at and no further than max_rows, so it stays cheap at any number of endpoints. A running row is not due.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    (SELECT s.planned_at
     FROM schedules s
     WHERE s.claimed_by IS NULL
       AND s.due_at <= (SELECT now FROM clock)
     ORDER BY s.due_at
     LIMIT sqlc.arg('max_rows')::int)
    UNION ALL
    (SELECT s.planned_at
     FROM schedules s
     WHERE s.claimed_by IS NOT NULL
       AND s.run_id IS NULL
       AND s.due_at <= (SELECT now FROM clock)
     ORDER BY s.due_at
     LIMIT sqlc.arg('max_rows')::int)
)
SELECT least(count(*), sqlc.arg('max_rows')::int)::bigint AS due,
       coalesce(extract(EPOCH FROM (SELECT now FROM clock) - min(d.planned_at)), 0)::float8 AS oldest_seconds
FROM due d;

-- name: WorkerGauge :many
-- Workers by state. One that has not been heard of for a while is silent, unless it said goodbye.
SELECT (CASE
            WHEN state <> 'inactive'
                AND heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
                THEN 'silent'
            ELSE state END)::text AS state,
       count(*)::bigint AS workers
FROM workers
GROUP BY 1;

-- name: SnapshotGauge :one
-- For how long the oldest transaction has kept vacuum from removing what was rewritten since. Autovacuum is not kept by its own
-- workers. A role without pg_read_all_stats sees its own transactions only.
SELECT coalesce(extract(EPOCH FROM clock_timestamp() - min(held.since)), 0)::float8 AS seconds
FROM (SELECT a.xact_start AS since
      FROM pg_catalog.pg_stat_activity a
      WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid()
        AND a.backend_type <> 'autovacuum worker'
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      UNION ALL
      SELECT p.prepared
      FROM pg_catalog.pg_prepared_xacts p
      WHERE p.database = current_database()) held;
