-- name: ConsoleSessionInsert :exec
-- Inserts a session, and deletes up to 100 expired ones, so that the table stays small.
WITH over AS (
    DELETE FROM console_sessions
    WHERE hash IN (SELECT s.hash FROM console_sessions s WHERE s.expires_at <= now() ORDER BY s.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
)
INSERT INTO console_sessions (hash, key_hash, expires_at)
VALUES (@hash, @key_hash, now() + sqlc.arg('ttl_ms')::bigint * interval '1 ms');

-- name: ConsoleSessionFind :one
SELECT key_hash
FROM console_sessions
WHERE hash = @hash AND expires_at > coalesce(sqlc.narg('now')::timestamptz, now());

-- name: ConsoleSessionDelete :exec
DELETE FROM console_sessions WHERE hash = @hash;

-- name: ConsoleEndpointCount :one
-- Counts the endpoints in service, up to max_rows.
SELECT count(*)::bigint
FROM (SELECT 1 FROM endpoints WHERE tenant_id = @tenant_id AND archived_at IS NULL LIMIT sqlc.arg('max_rows')::int) AS counted;

-- name: ConsoleBuckets :many
-- Returns the outcomes of a tenant's newest runs by time bucket, from max_rows runs at most.
WITH newest AS MATERIALIZED (
    SELECT r.finished_at, r.status, r.lag
    FROM run_lags r
    WHERE r.tenant_id = @tenant_id
      AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz - interval '5 minutes'
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
)
SELECT date_bin(sqlc.arg('step_ms')::bigint * interval '1 ms', n.finished_at, sqlc.arg('from_at')::timestamptz)::timestamptz AS at,
       count(*) FILTER (WHERE n.status = 'succeeded')::bigint AS succeeded,
       count(*) FILTER (WHERE n.status IN ('failed', 'timed_out'))::bigint AS failed,
       count(*) FILTER (WHERE n.status = 'lost')::bigint AS lost,
       count(*) FILTER (WHERE n.status IN ('skipped', 'canceled'))::bigint AS other,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(EPOCH FROM n.lag) * 1000), 0)::float8 AS lag_p50_ms,
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(EPOCH FROM n.lag) * 1000), 0)::float8 AS lag_p99_ms
FROM newest n
WHERE n.finished_at >= sqlc.arg('from_at')::timestamptz
GROUP BY 1
ORDER BY 1;

-- name: ConsoleIncidents :many
-- Returns the unsuccessful runs of a tenant, grouped by endpoint, status and reason, each with the
-- last run to end and the number of runs. Lost runs come first, so that an endpoint that always
-- fails does not hide them. lost is the number of lost runs read. Of each status the newest
-- max_rows runs are read from a partial index, so that many runs of one status hide no other. cut
-- is true if a status may have more runs than that.
WITH newest AS MATERIALIZED (
    SELECT r.id, r.scheduled_for, r.endpoint_id, r.status, r.reason_code, r.finished_at
    FROM unnest(ARRAY['failed', 'timed_out', 'lost']) AS way (status)
             CROSS JOIN LATERAL (SELECT h.id, h.scheduled_for, h.endpoint_id, h.status, h.reason_code, h.finished_at
                                 FROM runs h
                                 WHERE h.tenant_id = @tenant_id
                                   AND h.status = way.status
                                   AND h.status <> 'succeeded' -- matches the predicate of the partial index
                                   AND h.id >= sqlc.arg('from_id')::uuid
                                   AND h.scheduled_for >= sqlc.arg('from_at')::timestamptz -- prunes partitions
                                 ORDER BY h.id DESC
                                 LIMIT sqlc.arg('max_rows')::int) AS r
), last AS MATERIALIZED (
    SELECT l.id, l.scheduled_for, l.runs
    FROM (SELECT DISTINCT ON (n.endpoint_id, n.status, n.reason_code)
                 n.id, n.scheduled_for, n.status, n.finished_at, count(*) OVER (PARTITION BY n.endpoint_id, n.status, n.reason_code) AS runs
          FROM newest n
          ORDER BY n.endpoint_id, n.status, n.reason_code, n.finished_at DESC, n.id DESC) AS l
    ORDER BY l.status = 'lost' DESC, l.finished_at DESC, l.id DESC
    LIMIT sqlc.arg('max_incidents')::int
)
SELECT r.id, r.endpoint_id, e.name, r.status, r.reason_code, r.status_code, r.finished_at, r.error, l.runs::bigint AS runs,
       (SELECT count(*) FROM newest n WHERE n.status = 'lost')::bigint AS lost,
       EXISTS (SELECT 1 FROM newest n GROUP BY n.status HAVING count(*) >= sqlc.arg('max_rows')::int)::boolean AS cut
FROM last l
         JOIN runs r ON r.tenant_id = @tenant_id AND r.id = l.id AND r.scheduled_for = l.scheduled_for
         JOIN endpoints e ON e.id = r.endpoint_id
ORDER BY r.status = 'lost' DESC, r.finished_at DESC, r.id DESC;

-- name: ConsoleSparklines :many
-- Returns the newest runs of each given endpoint.
SELECT r.endpoint_id, r.status, r.scheduled_for, r.started_at, r.finished_at
FROM unnest(sqlc.arg('endpoint_ids')::uuid[]) AS wanted (id)
         CROSS JOIN LATERAL (SELECT h.endpoint_id, h.status, h.scheduled_for, h.started_at, h.finished_at, h.id
                             FROM runs h
                             WHERE h.endpoint_id = wanted.id AND h.tenant_id = @tenant_id
                               AND h.scheduled_for >= sqlc.arg('from_at')::timestamptz
                             ORDER BY h.id DESC
                             LIMIT sqlc.arg('per_endpoint')::int) AS r
ORDER BY r.endpoint_id, r.id;

-- name: ConsoleDecisions :many
-- Returns the newest decisions about an endpoint outside a finish.
SELECT d.decided_at, d.cause, d.author, d.next_run_at, d.next_source, d.input
FROM decisions d
         JOIN endpoints e ON e.id = d.endpoint_id
WHERE d.endpoint_id = @endpoint_id AND e.tenant_id = @tenant_id AND d.decided_at >= sqlc.arg('from_at')::timestamptz
ORDER BY d.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: ConsoleHints :many
-- Returns the newest hints of an endpoint, ended ones included.
SELECT h.kind, h.interval_ms, h.run_at, h.created_at, h.expires_at, h.ended_at, h.reason, h.author
FROM hints h
         JOIN endpoints e ON e.id = h.endpoint_id
WHERE h.endpoint_id = @endpoint_id AND e.tenant_id = @tenant_id AND h.expires_at >= sqlc.arg('from_at')::timestamptz
ORDER BY h.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: ConsoleGuarantees :one
-- Checks the guarantees over the newest max_rows runs of a tenant. It counts early starts, due
-- times that succeeded twice, overlapping runs of endpoints that do not allow them, and lost runs.
-- Runs that no worker claimed are left out, because they sent nothing.
WITH newest AS MATERIALIZED (
    SELECT r.endpoint_id, r.scheduled_for, r.attempt, r.started_at, r.finished_at, r.status, r.claimed, r.lag
    FROM run_lags r
    WHERE r.tenant_id = @tenant_id AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
), seen AS MATERIALIZED (
    SELECT n.*,
           lag(n.finished_at) OVER (PARTITION BY n.endpoint_id ORDER BY n.started_at) AS before_finished,
           lag(n.status) OVER (PARTITION BY n.endpoint_id ORDER BY n.started_at) AS before_status,
           count(*) FILTER (WHERE n.status = 'succeeded') OVER (PARTITION BY n.endpoint_id, n.scheduled_for) AS successes
    FROM newest n
    WHERE n.attempt > 0 AND n.claimed
)
SELECT count(*)::bigint AS runs,
       coalesce(min(s.scheduled_for), sqlc.arg('from_at')::timestamptz)::timestamptz AS since,
       count(*) FILTER (WHERE s.started_at < s.scheduled_for - interval '50 milliseconds')::bigint AS early,
       count(*) FILTER (WHERE s.successes > 1)::bigint AS doubled,
       count(*) FILTER (WHERE s.before_finished > s.started_at AND s.before_status <> 'lost'
           AND NOT EXISTS (SELECT FROM endpoints e WHERE e.id = s.endpoint_id AND e.spec ->> 'overlap' = 'allow'))::bigint AS overlapping,
       count(*) FILTER (WHERE s.status = 'lost')::bigint AS lost,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(EPOCH FROM s.lag) * 1000), 0)::float8 AS lag_p50_ms,
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(EPOCH FROM s.lag) * 1000), 0)::float8 AS lag_p99_ms
FROM seen s;

-- name: ConsoleStuck :one
-- Counts the live runs of a tenant with locks that expired longer ago than a settlement takes.
SELECT count(*)::bigint
FROM live_runs
WHERE tenant_id = @tenant_id AND locked_until < sqlc.arg('now')::timestamptz - interval '105 seconds';

-- name: ConsoleSkipped :one
-- Counts the skipped due times among the newest rows of a tenant.
SELECT coalesce(sum(coalesce(n.skipped_count, 1)), 0)::bigint AS due_times
FROM (SELECT r.attempt, r.skipped_count
      FROM runs r
      WHERE r.tenant_id = @tenant_id AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz
      ORDER BY r.id DESC
      LIMIT sqlc.arg('max_rows')::int) n
WHERE n.attempt = 0;

-- name: ConsoleNames :many
SELECT id, name FROM endpoints WHERE id = ANY (sqlc.arg('ids')::uuid[]) AND tenant_id = @tenant_id;

-- name: ConsoleDecisionInputs :one
-- Returns the inputs of the next decision that the API does not return.
SELECT s.anchor, s.retry_after, s.target_next, s.fresh_until
FROM endpoints e JOIN schedules s ON s.endpoint_id = e.id
WHERE e.id = @endpoint_id AND e.tenant_id = @tenant_id;

-- name: ConsoleSavings :one
-- Compares the newest runs of endpoints whose planner may act with the runs of their baseline
-- intervals. The distance of two runs counts at most up to the longest interval that the planner
-- may set, so that a pause does not count as saved. cut is true if there may be more runs within
-- the time.
WITH newest AS MATERIALIZED (
    SELECT r.endpoint_id, r.scheduled_for, r.started_at, r.body_digest, coalesce(r.status_code = 304, false) AS unchanged,
           r.status = 'succeeded' AND (r.status_code = 304 OR r.body_digest IS NOT NULL) AS answered,
           r.status <> 'skipped' AND r.source <> 'manual' AS planned
    FROM runs r
    WHERE r.tenant_id = @tenant_id AND r.scheduled_for >= sqlc.arg('from_at')::timestamptz
    ORDER BY r.id DESC
    LIMIT sqlc.arg('max_rows')::int
), spaced AS (
    SELECT n.endpoint_id,
           (e.spec ->> 'baselineIntervalMs')::float8 AS baseline_ms,
           coalesce((e.spec ->> 'maxIntervalMs')::float8, 8 * (e.spec ->> 'baselineIntervalMs')::float8) AS longest_ms,
           extract(EPOCH FROM n.started_at - lag(n.started_at) OVER (PARTITION BY n.endpoint_id ORDER BY n.started_at)) * 1000 AS gap_ms,
           n.answered AND NOT n.unchanged
               AND n.body_digest <> lag(n.body_digest) OVER before
               AND (n.body_digest # lag(n.body_digest) OVER before) >> 48 = 0 AS changed -- The upper bits name the compared members.
    FROM newest n
             JOIN endpoints e ON e.id = n.endpoint_id
    WHERE n.planned
      AND e.planner = 'act'
      AND e.archived_at IS NULL
      AND e.spec ? 'baselineIntervalMs'
    WINDOW before AS (PARTITION BY n.endpoint_id, n.answered, n.unchanged ORDER BY n.started_at)
)
SELECT count(DISTINCT s.endpoint_id)::bigint AS endpoints,
       count(*)::bigint AS runs,
       coalesce(round(sum(least(s.gap_ms, s.longest_ms) / s.baseline_ms)), 0)::bigint AS baseline_runs,
       count(*) FILTER (WHERE s.changed)::bigint AS changes,
       coalesce((SELECT min(n.scheduled_for) FROM newest n), sqlc.arg('from_at')::timestamptz)::timestamptz AS since,
       ((SELECT count(*) FROM newest n) >= sqlc.arg('max_rows')::int)::boolean AS cut
FROM spaced s
WHERE s.gap_ms IS NOT NULL;
