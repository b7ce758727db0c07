-- name: WorkerBeat :exec
-- Registers a worker or stamps its row. A worker that was thought dead comes back by its next beat, whatever the clock said when its
-- claims were taken over.
INSERT INTO workers (id, name, version, state, slots, busy, max_slots, queued, started_at, heartbeat_at)
VALUES (@id, @name, @version, @state, @slots, @busy, @max_slots, @queued, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
        coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ON CONFLICT (id) DO UPDATE SET state = excluded.state, slots = excluded.slots, busy = excluded.busy, max_slots = excluded.max_slots,
                               queued = excluded.queued, heartbeat_at = excluded.heartbeat_at,
                               freed_at = NULL;

-- name: WorkerFleet :one
-- The sum of the active workers. A worker without a beat for 6 s does not count, because its claims are taken over after that.
SELECT count(*)::int AS workers, coalesce(sum(max_slots), 0)::int AS max_slots, coalesce(sum(queued), 0)::int AS queued
FROM workers
WHERE state = 'active'
  AND heartbeat_at >= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - interval '6 s';

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

-- name: ScheduleListClaimed :many
-- The claims of a silent or departed worker. The locks of its claims end within reach_ms, so this scans that range of the index of held
-- rows: an index on claimed_by would cost every claim and every finish. Claims whose locks have run out are claimable already.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT s.endpoint_id
FROM schedules s
WHERE s.due_at > (SELECT now FROM clock)
  AND s.due_at <= (SELECT now FROM clock) + sqlc.arg('reach_ms')::bigint * interval '1 ms'
  AND s.claimed_by = sqlc.arg('worker_id')::uuid
  AND s.run_id IS NULL;

-- name: ScheduleTakeOver :execrows
-- Frees what it never started. It is safe although the worker may be alive: the token rises, so it cannot start them any more.
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, due_at = s.planned_at, claim_token = s.claim_token + 1
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND s.claimed_by = sqlc.arg('worker_id')::uuid
  AND s.run_id IS NULL;

-- name: SpillSmall :exec
-- The two of a probe for room on the disk: the rest of the transaction sorts and counts in 64 kB, and spills to the tablespace of the database
-- itself, wherever the role usually does.
SET LOCAL work_mem = '64kB';

-- name: SpillHere :exec
SET LOCAL temp_tablespaces = '';

-- name: SpillProbe :one
-- Takes about 140 kB of new space on the disk of the database and gives it back, without WAL, dead rows or a change of the catalog.
SELECT count(*) FROM generate_series(1, 10000);
