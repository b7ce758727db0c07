-- name: WorkerBeat :exec
-- Registers a worker or stamps its row. A worker that was thought dead comes back by its next beat.
INSERT INTO workers (id, name, version, state, slots, busy, started_at, heartbeat_at)
VALUES (@id, @name, @version, @state, @slots, @busy, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
        coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ON CONFLICT (id) DO UPDATE SET state = excluded.state, slots = excluded.slots, busy = excluded.busy, heartbeat_at = excluded.heartbeat_at;

-- name: WorkerForget :execrows
-- Removes the rows of workers that have been gone for so long that nothing refers to them any more.
DELETE
FROM workers w
WHERE w.heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('gone_ms')::bigint * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.worker_id = w.id);

-- name: WorkerListSilent :many
-- Workers that have not been heard of for a while and whose claims have not been taken over since.
SELECT id
FROM workers
WHERE heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
  AND (freed_at IS NULL OR freed_at < heartbeat_at)
ORDER BY heartbeat_at
LIMIT 100;

-- name: WorkerFree :execrows
-- Notes that the claims of a silent worker are taken over, if it is still silent.
UPDATE workers
SET freed_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
WHERE id = @id
  AND heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms';

-- name: ScheduleTakeOver :execrows
-- Frees what a silent or departed worker claimed and never started. It is safe although the worker may be alive: the token rises,
-- so it cannot start them any more.
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, due_at = s.planned_at, claim_token = s.claim_token + 1
WHERE s.claimed_by = sqlc.arg('worker_id')::uuid
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = s.endpoint_id);

-- name: SweepLock :one
-- Tries to become the one sweeper of the database for as long as the transaction lasts. The sweeps work on other connections, so
-- this one may stand idle for a whole pass.
SELECT pg_try_advisory_xact_lock(hashtext('rubato.sweeper')) AS alone,
       set_config('idle_in_transaction_session_timeout', '60000', true)::text AS idle_limit;
