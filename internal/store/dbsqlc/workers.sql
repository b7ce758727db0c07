-- name: WorkerHeartbeat :one
-- Inserts or updates the row of a worker, and returns whether an operator has ordered it to drain.
-- A worker that was thought dead becomes active with its next heartbeat, even if the clock was set
-- back since its claims were taken over.
INSERT INTO workers (id, name, version, state, slots, busy, max_slots, queued, tags, capabilities, exclusive, started_at, heartbeat_at)
VALUES (@id, @name, @version, @state, @slots, @busy, @max_slots, @queued, @tags, @capabilities, @exclusive, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
        coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()))
ON CONFLICT (id) DO UPDATE SET state = excluded.state, slots = excluded.slots, busy = excluded.busy, max_slots = excluded.max_slots,
                               queued = excluded.queued, tags = excluded.tags, capabilities = excluded.capabilities, exclusive = excluded.exclusive,
                               heartbeat_at = excluded.heartbeat_at,
                               freed_at = NULL
RETURNING (drain_requested_at IS NOT NULL)::boolean AS drain;

-- name: WorkerLock :one
-- Locks the row of a worker and returns it, with its state as WorkerList returns it.
SELECT sqlc.embed(w),
       worker_state(w, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), sqlc.arg('silent_ms')::bigint)::text AS shown_state
FROM workers w
WHERE w.id = @id
FOR UPDATE;

-- name: WorkerDrain :exec
-- Orders a worker to drain, or withdraws the order if drain is false. The caller has locked the
-- row. An earlier order is kept.
UPDATE workers
SET drain_requested_at = CASE WHEN sqlc.arg('drain')::boolean THEN coalesce(drain_requested_at, sqlc.narg('now')::timestamptz, clock_timestamp()) END,
    drain_requested_by = CASE WHEN sqlc.arg('drain')::boolean THEN coalesce(drain_requested_by, sqlc.arg('author')::text) END
WHERE id = @id;

-- name: WorkerNotify :exec
-- Notifies a worker at commit that it should read its orders now.
SELECT pg_notify('rubato_worker', sqlc.arg('worker_id')::uuid::text);

-- name: WorkerFleet :one
-- Returns the sums over the active workers. A worker without a heartbeat for 6 s does not count,
-- because its claims are then taken over. The index of a worker is the number of active ones with a
-- lower ID.
SELECT count(*)::int AS workers, (count(*) FILTER (WHERE id < @worker_id))::int AS index, coalesce(sum(max_slots), 0)::int AS max_slots, coalesce(sum(queued), 0)::int AS queued
FROM workers
WHERE state = 'active'
  AND heartbeat_at >= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - interval '6 s';

-- name: TagSetListServed :many
-- Returns the tag sets that a worker serves, except the one without tags. yields is set if the
-- worker lacks preferred tags and another active worker that serves the set has them. The worker
-- then lets that one go first.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT t.id,
       (NOT t.preferred <@ (w.tags || w.capabilities)
           AND EXISTS (SELECT
                       FROM workers o
                       WHERE o.id <> w.id
                         AND worker_state(o, (SELECT now FROM clock), 6000) = 'active'
                         AND worker_serves(o, t.required)
                         AND t.preferred <@ (o.tags || o.capabilities)))::boolean AS yields
FROM workers w
         JOIN tag_sets t ON worker_serves(w, t.required)
WHERE w.id = @worker_id
  AND t.id <> 0
ORDER BY t.id;

-- name: WorkerDropBefore :execrows
-- Deletes the rows of workers that ended so long ago that no row refers to them.
DELETE
FROM workers w
WHERE w.heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('gone_ms')::bigint * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.worker_id = w.id);

-- name: WorkerListSilent :many
-- Returns silent workers with claims that have not been taken over since their last heartbeat.
SELECT id
FROM workers
WHERE heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
  AND (freed_at IS NULL OR freed_at < heartbeat_at)
ORDER BY heartbeat_at
LIMIT 100;

-- name: WorkerMarkFreed :execrows
-- Records that the claims of a silent worker are taken over, if it is still silent.
UPDATE workers
SET freed_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
WHERE id = @id
  AND heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms';

-- name: ScheduleListClaimed :many
-- Returns the claims of a silent or stopped worker. Their locks end within reach_ms, so the
-- statement scans that range of the index of held rows, because an index on claimed_by would make
-- every claim and finish more expensive. Expired claims are excluded, because any worker can claim
-- them.
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
-- Frees claims that a silent worker has not started. This is safe even if the worker is alive,
-- because the raised token refuses its starts.
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, due_at = s.planned_at, claim_token = s.claim_token + 1
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND s.claimed_by = sqlc.arg('worker_id')::uuid
  AND s.run_id IS NULL;

-- name: WorkMemLimit :exec
-- Limits work memory to 64 kB for the rest of the transaction. DiskSpaceProbe then has to spill to
-- disk.
SET LOCAL work_mem = '64kB';

-- name: TempTablespaceDefault :exec
-- Makes the rest of the transaction spill to the tablespace of the database, whatever the role's
-- setting.
SET LOCAL temp_tablespaces = '';

-- name: DiskSpaceProbe :one
-- Checks for free disk space: it allocates and frees about 140 kB, without WAL, dead tuples or
-- catalog changes.
SELECT count(*) FROM generate_series(1, 10000);

-- name: WorkerListRoutes :many
-- Returns the workers that have not stopped, with whether each serves these tags and which of them it
-- lacks.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT w.id, w.name, w.exclusive, w.tags, w.capabilities,
       worker_state(w, (SELECT now FROM clock), 6000)::text AS state,
       worker_serves(w, sqlc.arg('required')::text[])::boolean AS serves,
       ARRAY(SELECT unnest(sqlc.arg('required')::text[]) EXCEPT SELECT unnest(w.tags || w.capabilities) ORDER BY 1)::text[] AS missing,
       ARRAY(SELECT unnest(sqlc.arg('preferred')::text[]) EXCEPT SELECT unnest(w.tags || w.capabilities) ORDER BY 1)::text[] AS unmet
FROM workers w
WHERE w.state <> 'inactive'
ORDER BY w.started_at DESC, w.id
LIMIT sqlc.arg('max_rows')::int;

-- name: TagSetCount :one
-- Counts the tag sets of a tenant's schedules that wait, except the one without tags. It reads one
-- index entry for each set (a skip scan), not one for each schedule.
WITH RECURSIVE used AS (
    (SELECT s.tag_set_id
     FROM schedules s
     WHERE s.tenant_id = sqlc.arg('tenant_id')::uuid
       AND s.claimed_by IS NULL
       AND (s.tag_set_id <> 0 OR s.priority <> 0)
       AND s.tag_set_id > 0
     ORDER BY s.tag_set_id
     LIMIT 1)
    UNION ALL
    SELECT (SELECT s.tag_set_id
            FROM schedules s
            WHERE s.tenant_id = sqlc.arg('tenant_id')::uuid
              AND s.claimed_by IS NULL
              AND (s.tag_set_id <> 0 OR s.priority <> 0)
              AND s.tag_set_id > used.tag_set_id
            ORDER BY s.tag_set_id
            LIMIT 1)
    FROM used
    WHERE used.tag_set_id IS NOT NULL
)
SELECT count(tag_set_id)::int
FROM used;

-- name: TagSetUnservedSince :one
-- Returns since when no active worker serves the tags of an endpoint. Null: one does, no worker is
-- active, or the endpoint is archived.
SELECT (SELECT t.unserved_since
        FROM schedules s
                 JOIN tag_sets t ON t.id = s.tag_set_id
        WHERE s.endpoint_id = @endpoint_id) AS since,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;
