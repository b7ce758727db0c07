-- name: StartsShare :exec
-- Taken by every batch of starts. It must be a statement of its own before the start: a statement's snapshot is older than any
-- lock that it waits for.
SELECT pg_advisory_xact_lock_shared(hashtext('rubato.starts'));

-- name: StartsExclude :exec
-- Taken by whatever replans an endpoint outside a finish: no batch of starts is in flight while it is held.
SELECT pg_advisory_xact_lock(hashtext('rubato.starts'));

-- name: LiveRunStart :many
-- Starts claims whose time has come: a live row for each one whose token is unchanged, whose lock is not over, and which is due up to
-- 50 ms from now, whatever the worker takes the time to be. What does not come back was revoked, has a live run, or is early by a clock
-- that was set back, and must not be sent.
WITH wanted AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
           unnest(sqlc.arg('tokens')::bigint[]) AS token,
           unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
           unnest(sqlc.arg('execution_ms')::bigint[]) AS execution_ms
), clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
INSERT INTO live_runs (endpoint_id, run_id, tenant_id, slot, attempt, source, claim_token, worker_id, claimed_at, started_at,
                       deadline_at, locked_until)
SELECT s.endpoint_id, w.run_id, e.tenant_id, s.slot, s.attempt, s.source, s.claim_token, s.claimed_by, s.claimed_at, clock.now,
       clock.now + w.execution_ms * interval '1 ms',
       clock.now + least(w.execution_ms + 5000, sqlc.arg('lock_ttl_ms')::bigint) * interval '1 ms'
FROM wanted w
         JOIN schedules s ON s.endpoint_id = w.endpoint_id AND s.claim_token = w.token
         JOIN endpoints e ON e.id = s.endpoint_id
         CROSS JOIN clock
WHERE s.claimed_by = sqlc.arg('worker_id')::uuid
  AND s.due_at > clock.now
  AND s.planned_at <= clock.now + interval '50 ms'
ON CONFLICT DO NOTHING
RETURNING endpoint_id, run_id, tenant_id, started_at, locked_until;

-- name: LiveRunListOwn :many
-- Which of these runs are live in the hands of this worker, under these tokens: for a worker that has not heard what became of their
-- start.
WITH asked AS (
    SELECT unnest(sqlc.arg('run_ids')::uuid[]) AS run_id, unnest(sqlc.arg('tokens')::bigint[]) AS token
)
SELECT l.endpoint_id, l.run_id, l.tenant_id, l.started_at, l.locked_until
FROM live_runs l
         JOIN asked ON asked.run_id = l.run_id AND asked.token = l.claim_token
WHERE l.worker_id = sqlc.arg('worker_id')::uuid;

-- name: LiveRunTakeBack :many
-- Takes back starts whose token has changed after all. An insert that waits for the end of an earlier live run of its endpoint goes
-- on with the snapshot from before that run's finish; only a later statement sees the token that the finish has raised.
DELETE
FROM live_runs l USING schedules s
WHERE l.run_id = ANY (sqlc.arg('run_ids')::uuid[])
  AND s.endpoint_id = l.endpoint_id
  AND s.claim_token <> l.claim_token
RETURNING l.run_id;
