-- name: ScheduleSuspend :one
-- Suspends a live run after the answer 202 of its target, by run, token and worker. The Max UUID replaces
-- the worker, and the lock becomes the wait for the end of the run. The token stays, because the
-- target got it with the request. It returns no row if the worker lost the run, if its endpoint was
-- archived, or if a user asked to cancel it.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), suspended AS (
    UPDATE schedules s
    SET claimed_by  = 'ffffffff-ffff-ffff-ffff-ffffffffffff',
        due_at      = clock.now + sqlc.arg('wait_ms')::bigint * interval '1 ms',
        deadline_at = clock.now + sqlc.arg('wait_ms')::bigint * interval '1 ms',
        revision    = s.revision + 1
    FROM clock
    WHERE s.endpoint_id = sqlc.arg('endpoint_id')::uuid
      AND s.run_id = sqlc.arg('run_id')::uuid
      AND s.claim_token = sqlc.arg('token')
      AND (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
      AND s.due_at > clock.now
      AND NOT s.archived
      AND s.cancel_requested_at IS NULL
    RETURNING s.due_at
)
INSERT INTO suspensions (run_id, endpoint_id, worker_id, wait_ms, exchange, status_url, poll_at)
SELECT sqlc.arg('run_id')::uuid,
       sqlc.arg('endpoint_id')::uuid,
       sqlc.arg('worker_id')::uuid,
       sqlc.arg('wait_ms')::bigint,
       sqlc.arg('exchange')::jsonb,
       sqlc.narg('status_url')::text,
       clock.now + sqlc.narg('poll_ms')::bigint * interval '1 ms'
FROM suspended, clock
RETURNING (SELECT due_at FROM suspended)::timestamptz AS until;

-- name: SuspensionStored :one
-- Reports whether a run is suspended for its worker. A worker needs it if it lost the response to a
-- suspension.
SELECT EXISTS (SELECT FROM suspensions WHERE run_id = @run_id AND worker_id = @worker_id);

-- name: SuspendedLock :one
-- Locks a suspended run by run and token, so that one of a callback, an extension and a timeout
-- wins. over says that its wait is over.
SELECT sqlc.embed(l), (l.locked_until <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))::boolean AS over
FROM live_runs l
WHERE (l.endpoint_id = sqlc.arg('endpoint_id')::uuid OR l.owner_id = sqlc.arg('endpoint_id')::uuid)
  AND l.run_id = sqlc.arg('run_id')::uuid
  AND l.claim_token = sqlc.arg('token')
  AND l.worker_id = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
FOR UPDATE;

-- name: SuspensionDelete :one
-- Deletes the suspension of a run that ends, and returns what its record needs.
DELETE FROM suspensions WHERE run_id = @run_id RETURNING worker_id, exchange;

-- name: SuspendedExtend :one
-- Starts the wait of a suspended run again. It returns no row if the run is not suspended any more,
-- or if its wait is over.
UPDATE schedules s
SET due_at      = clock.now + p.wait_ms * interval '1 ms',
    deadline_at = clock.now + p.wait_ms * interval '1 ms'
FROM suspensions p,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE (s.endpoint_id = sqlc.arg('endpoint_id')::uuid OR s.owner_id = sqlc.arg('endpoint_id')::uuid)
  AND s.run_id = sqlc.arg('run_id')::uuid
  AND p.run_id = sqlc.arg('run_id')::uuid
  AND s.claim_token = sqlc.arg('token')
  AND s.claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
  AND s.due_at > clock.now
RETURNING s.due_at;

-- name: SuspendedListEnded :many
-- Returns suspended runs past the end of their wait, the longest over first, and then those that a user asked
-- to cancel. It scans the low end of the index of suspended runs, and the index of cancellations.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), ended AS MATERIALIZED (
    (SELECT s.endpoint_id
     FROM schedules s
     WHERE s.claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
       AND s.due_at <= (SELECT now FROM clock)
       AND NOT s.run_id = ANY (sqlc.arg('except_ids')::uuid[])
     ORDER BY s.due_at
     LIMIT sqlc.arg('max_rows')::int)
    UNION ALL
    (SELECT s.endpoint_id
     FROM schedules s
     WHERE s.claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
       AND s.cancel_requested_at IS NOT NULL
       AND s.due_at > (SELECT now FROM clock)
       AND NOT s.run_id = ANY (sqlc.arg('except_ids')::uuid[])
     LIMIT sqlc.arg('max_rows')::int)
    LIMIT sqlc.arg('max_rows')::int
)
SELECT sqlc.embed(l)
FROM ended
         JOIN live_runs l ON l.endpoint_id = ended.endpoint_id;

-- name: EndpointReported :one
-- Returns what a report about a run of an endpoint needs.
SELECT e.tenant_id, e.version, t.secrets_version, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM endpoints e
         JOIN tenants t ON t.id = e.tenant_id
WHERE e.id = sqlc.arg('endpoint_id')::uuid;

-- name: RunLateReports :one
-- Counts the late results among the events of a run.
SELECT count(*)
FROM run_events
WHERE run_id = @run_id
  AND scheduled_for = @scheduled_for
  AND kind = 'late_result';

-- name: SuspensionClaimPolls :many
-- Claims suspended runs with status URLs that are due to be asked, by workers that serve the tags of
-- their endpoints. A claim lasts lease_ms: if its worker dies, another one asks then.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    SELECT p.run_id
    FROM suspensions p
             JOIN schedules s ON s.endpoint_id = p.endpoint_id AND s.run_id = p.run_id
    WHERE p.poll_at <= (SELECT now FROM clock)
      AND s.tag_set_id = ANY (sqlc.arg('tag_set_ids')::int[])
    ORDER BY p.poll_at
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF p SKIP LOCKED
), claimed AS (
    UPDATE suspensions p
    SET poll_at = clock.now + sqlc.arg('lease_ms')::bigint * interval '1 ms', polls = p.polls + 1
    FROM clock
    WHERE p.run_id = ANY (ARRAY(SELECT run_id FROM due))
    RETURNING p.run_id, p.endpoint_id, p.status_url, p.polls
)
SELECT sqlc.embed(l), c.status_url::text AS status_url, c.polls, e.version, t.secrets_version
FROM claimed c
         JOIN live_runs l ON l.endpoint_id = c.endpoint_id AND l.run_id = c.run_id
         JOIN endpoints e ON e.id = coalesce(l.owner_id, l.endpoint_id)
         JOIN tenants t ON t.id = e.tenant_id;

-- name: SuspensionPollLater :exec
-- Plans the next request for the status of a suspended run.
UPDATE suspensions
SET poll_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('wait_ms')::bigint * interval '1 ms'
WHERE run_id = @run_id;
