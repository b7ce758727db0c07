-- name: ScheduleGauge :one
-- Counts the claimable endpoints, and returns how long the one planned first has waited. It reads
-- at most max_rows entries of each index on due_at, from an instant or from the low end, so its cost
-- does not depend on the number of endpoints. A running row does not count. lowest is the due time
-- at which the next scan may start: that of the first entry, or the database's time if there is none.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    (SELECT s.planned_at, s.due_at
     FROM schedules s
     WHERE s.claimed_by IS NULL
       AND s.tag_set_id = 0
       AND s.priority = 0
       AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
       AND s.due_at <= (SELECT now FROM clock)
     ORDER BY s.due_at
     LIMIT sqlc.arg('max_rows')::int)
    UNION ALL
    (SELECT first.planned_at, first.due_at
     FROM tag_sets t
              CROSS JOIN priorities p
              CROSS JOIN LATERAL (SELECT s.planned_at, s.due_at
                                  FROM schedules s
                                  WHERE s.claimed_by IS NULL
                                    AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                    AND s.tag_set_id = t.id
                                    AND s.priority = p.priority
                                    AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
                                    AND s.due_at <= (SELECT now FROM clock)
                                  ORDER BY s.due_at
                                  LIMIT sqlc.arg('max_rows')::int) first
     LIMIT sqlc.arg('max_rows')::int)
    UNION ALL
    (SELECT s.planned_at, s.due_at
     FROM schedules s
     WHERE s.claimed_by IS NOT NULL
       AND s.run_id IS NULL
       AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
       AND s.due_at <= (SELECT now FROM clock)
     ORDER BY s.due_at
     LIMIT sqlc.arg('max_rows')::int)
), apart AS MATERIALIZED ( -- The entries above may be those of the first lanes only.
    SELECT min(first.due_at) AS lowest
    FROM tag_sets t
             CROSS JOIN priorities p
             CROSS JOIN LATERAL (SELECT s.due_at
                                 FROM schedules s
                                 WHERE s.claimed_by IS NULL
                                   AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                   AND s.tag_set_id = t.id
                                   AND s.priority = p.priority
                                   AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
                                   AND s.due_at <= (SELECT now FROM clock)
                                 ORDER BY s.due_at
                                 LIMIT 1) first
)
SELECT least(count(*), sqlc.arg('max_rows')::int)::bigint AS due,
       coalesce(extract(EPOCH FROM (SELECT now FROM clock) - min(d.planned_at)), 0)::float8 AS oldest_seconds,
       (SELECT now FROM clock)::timestamptz AS now,
       coalesce(least(min(d.due_at), (SELECT lowest FROM apart)), (SELECT now FROM clock))::timestamptz AS lowest
FROM due d;

-- name: WorkerGauge :many
-- Counts workers by state.
SELECT worker_state(w, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), sqlc.arg('silent_ms')::bigint)::text AS state,
       count(*)::bigint AS workers
FROM workers w
GROUP BY 1;

-- name: SnapshotGauge :many
-- Returns the transaction that has held back vacuum for longest, with its session, or no row.
-- Autovacuum workers are excluded, because they do not hold back vacuum. Only the first word of the
-- query text is read, because the rest may contain data of users. A role without pg_read_all_stats
-- sees only its own transactions.
SELECT extract(EPOCH FROM clock_timestamp() - held.since)::float8 AS seconds,
       held.since::timestamptz AS since, held.pid::int AS pid, coalesce(held.usename, '')::text AS user_name,
       coalesce(held.application_name, '')::text AS application_name, coalesce(held.client, '')::text AS client,
       coalesce(held.state, '')::text AS state, held.query_start, coalesce(held.command, '')::text AS command,
       coalesce(held.query_id, 0)::bigint AS query_id, coalesce(held.gid, '')::text AS prepared
FROM (SELECT a.xact_start AS since, a.pid, a.usename::text, a.application_name, host(a.client_addr) AS client, a.state, a.query_start,
             upper(substring(a.query FROM '^\s*([A-Za-z]+)')) AS command, a.query_id, NULL::text AS gid
      FROM pg_catalog.pg_stat_activity a
      WHERE a.datname = current_database()
        AND a.pid <> pg_backend_pid()
        AND a.backend_type <> 'autovacuum worker'
        AND a.xact_start IS NOT NULL
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      UNION ALL
      SELECT p.prepared, 0, p.owner::text, NULL, NULL, 'prepared', NULL, NULL, NULL, p.gid
      FROM pg_catalog.pg_prepared_xacts p
      WHERE p.database = current_database()) held
ORDER BY held.since
LIMIT 1;
