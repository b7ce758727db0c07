-- name: SweepLock :one
-- Tries to take the lock of the one sweeper of the database until the end of the transaction. The
-- sweeps use other connections.
SELECT pg_try_advisory_xact_lock(hashtext('rubato.sweeper'));

-- name: ScheduleClampLocks :execrows
-- Shortens the locks of claims that end later than a lock granted now could end. Such a lock was
-- granted before the clock was set back. A margin of 10 s protects locks that were granted after
-- this statement read the clock, because a sweep takes less time than that.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), ahead AS MATERIALIZED (
    SELECT s.endpoint_id
    FROM schedules s
    WHERE s.claimed_by IS NOT NULL
      AND s.run_id IS NULL
      AND s.due_at > (SELECT now FROM clock) + sqlc.arg('lock_ttl_ms')::int * interval '1 ms' + interval '10 s'
      AND s.due_at > greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms' + interval '10 s'
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE schedules s
SET due_at = greatest(clock.now, s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
FROM clock
WHERE s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM ahead));

-- name: RunClampLocks :execrows
-- Works like ScheduleClampLocks for locks and deadlines of live runs: an interval that starts in
-- the future starts now instead. It scans the locks that end in the future.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
UPDATE schedules s
SET claimed_at  = least(s.claimed_at, clock.now),
    started_at  = least(s.started_at, clock.now),
    deadline_at = least(s.deadline_at, clock.now + (s.deadline_at - s.started_at)),
    due_at      = least(s.due_at, clock.now + least(sqlc.arg('lock_ttl_ms')::int * interval '1 ms',
                                                    s.deadline_at - s.started_at + interval '5 s'))
FROM clock
WHERE s.claimed_by IS NOT NULL
  AND s.run_id IS NOT NULL
  AND s.claimed_by <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- The wait of a suspended run is no lock.
  AND s.due_at > (SELECT now FROM clock) + interval '10 s' -- A lock ends after the start of its run.
  AND (s.started_at > clock.now + interval '10 s'
   OR s.due_at > clock.now + sqlc.arg('lock_ttl_ms')::int * interval '1 ms' + interval '10 s');

-- name: WorkerClampHeartbeats :execrows
-- Works like ScheduleClampLocks for heartbeats. Otherwise a dead worker would look alive until the
-- clock reaches its last heartbeat.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
UPDATE workers w
SET heartbeat_at = clock.now
FROM clock
WHERE w.heartbeat_at > clock.now + interval '10 s';

-- name: ScheduleLowestLock :one
-- Returns the database's time and the lowest end of an expired lock, or that time if none has expired.
-- It scans the index of held rows from an instant, or from its low end.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT clock.now::timestamptz AS now,
       coalesce((SELECT s.due_at
                 FROM schedules s
                 WHERE s.claimed_by IS NOT NULL
                   AND s.claimed_by <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- The wait of a suspended run is no lock.
                   AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
                   AND s.due_at < (SELECT now FROM clock)
                 ORDER BY s.due_at
                 LIMIT 1), clock.now)::timestamptz AS lowest
FROM clock;

-- name: ScheduleListStuck :many
-- Returns claims with locks that expired long ago and were not taken over. It scans the index of
-- held rows from an instant, or from its low end.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT s.endpoint_id
FROM schedules s
WHERE s.claimed_by IS NOT NULL
  AND s.run_id IS NULL
  AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
  AND s.due_at < (SELECT now FROM clock) - sqlc.arg('stuck_ms')::bigint * interval '1 ms'
ORDER BY s.due_at
LIMIT sqlc.arg('max_rows')::int;

-- name: ScheduleFreeStuck :execrows
-- Frees stuck claims if they are still stuck. The caller has locked the rows.
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, due_at = s.planned_at, claim_token = s.claim_token + 1
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND s.due_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('stuck_ms')::bigint * interval '1 ms'
  AND s.claimed_by IS NOT NULL
  AND s.run_id IS NULL;

-- name: RunListLost :many
-- Returns lost live runs, each with the signal that proves the loss. In every case the lock has
-- expired in database time. Signal deadline: the deadline passed more than 5 s ago; after a step of
-- the clock that does not count against a worker with heartbeats. Otherwise the deadline has not
-- passed, and one of these holds. Signal goodbye: the worker has shut down or never registered.
-- Signal silence: no heartbeat for stale_after_ms, unless silence is distrusted. Signal valve: the
-- lock expired so long ago that silence counts in any case. It scans the index of held rows from an
-- instant, or from its low end.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT sqlc.embed(l),
       CASE WHEN l.deadline_at + interval '5 s' < clock.now THEN 'deadline'
            WHEN w.id IS NULL OR w.state = 'inactive' THEN 'goodbye'
            WHEN l.locked_until + sqlc.arg('valve_ms')::bigint * interval '1 ms' < clock.now THEN 'valve'
            ELSE 'silence' END::text AS signal
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     clock
WHERE l.locked_until >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
  AND l.locked_until < (SELECT now FROM clock)
  AND l.worker_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff' -- SuspendedListEnded returns suspended runs.
  AND CASE WHEN sqlc.arg('by_deadline')::boolean THEN l.deadline_at + interval '5 s' < clock.now
               AND NOT (sqlc.arg('distrust_deadlines')::boolean
                   AND coalesce(w.state <> 'inactive' AND w.heartbeat_at + interval '6 s' >= clock.now, false))
           ELSE l.deadline_at + interval '5 s' >= clock.now
               AND (w.id IS NULL
                   OR w.state = 'inactive'
                   OR (w.heartbeat_at + sqlc.arg('stale_after_ms')::bigint * interval '1 ms' < clock.now
                       AND (NOT sqlc.arg('distrust_silence')::boolean
                           OR l.locked_until + sqlc.arg('valve_ms')::bigint * interval '1 ms' < clock.now))) END
  AND NOT l.run_id = ANY (sqlc.arg('except_ids')::uuid[])
ORDER BY l.locked_until
LIMIT sqlc.arg('max_rows')::int;

-- name: RunEvidence :one
-- Returns the evidence that a live run is lost, for its event. RunLockLost decides.
SELECT l.locked_until, l.deadline_at, l.deadline_at + interval '5 s' < clock.now AS overdue, w.state, w.heartbeat_at
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE l.endpoint_id = @endpoint_id AND l.run_id = @run_id;

-- name: RunLockLost :many
-- Locks the row of a lost run, by endpoint, run and token, if the whole condition still holds: no
-- heartbeat has extended its lock meanwhile, and its worker is still silent. READ COMMITTED
-- evaluates the condition on the newest version of the row.
SELECT s.endpoint_id
FROM schedules s
         CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE s.endpoint_id = sqlc.arg('endpoint_id')
  AND s.run_id = sqlc.arg('run_id')::uuid
  AND s.claim_token = sqlc.arg('token')
  AND s.claimed_by <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
  AND s.due_at < clock.now
  AND ((s.deadline_at + interval '5 s' < clock.now
    AND NOT (sqlc.arg('distrust_deadlines')::boolean
        AND EXISTS (SELECT 1
                    FROM workers w
                    WHERE w.id = s.claimed_by AND w.state <> 'inactive' AND w.heartbeat_at + interval '6 s' >= clock.now)))
    OR NOT EXISTS (SELECT 1
                   FROM workers w
                   WHERE w.id = s.claimed_by
                     AND w.state <> 'inactive'
                     AND (w.heartbeat_at + sqlc.arg('stale_after_ms')::bigint * interval '1 ms' >= clock.now
                       OR (sqlc.arg('distrust_silence')::boolean
                           AND s.due_at + sqlc.arg('valve_ms')::bigint * interval '1 ms' >= clock.now))))
FOR UPDATE OF s;

-- name: RunCountSilent :one
-- Counts the live runs that a worker holds, and those that silence alone would settle. It scans the
-- index of held rows from an instant, or from its low end.
SELECT count(*) AS live,
       count(*) FILTER (WHERE l.locked_until < clock.now AND l.deadline_at + interval '5 s' >= clock.now AND w.state <> 'inactive'
           AND w.heartbeat_at + sqlc.arg('stale_after_ms')::bigint * interval '1 ms' < clock.now) AS silent
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE l.worker_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
  AND l.locked_until >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz);

-- name: WorkerRetire :execrows
-- Marks workers as inactive that have been silent for long and have no live run. A worker that is
-- alive after all becomes active with its next heartbeat.
UPDATE workers w
SET state = 'inactive'
WHERE w.state <> 'inactive'
  AND w.heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.worker_id = w.id);

-- name: TagSetMark :many
-- Records since when no active worker serves each tag set, and returns the sets for which that is so
-- for over_ms, with the required tags that no active worker has. Without active workers no set
-- counts, because that is an outage.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), active AS MATERIALIZED (
    SELECT w.id, w.tags || w.capabilities AS tags
    FROM workers w
    WHERE worker_state(w, (SELECT now FROM clock), 6000) = 'active'
), states AS MATERIALIZED (
    SELECT t.id, t.required, t.unserved_since,
           EXISTS (SELECT FROM active)
               AND NOT EXISTS (SELECT FROM workers w JOIN active a ON a.id = w.id WHERE worker_serves(w, t.required)) AS unserved
    FROM tag_sets t
), marked AS (
    UPDATE tag_sets t
    SET unserved_since = CASE WHEN s.unserved THEN (SELECT now FROM clock) END
    FROM states s
    WHERE t.id = s.id
      AND s.unserved <> (t.unserved_since IS NOT NULL)
)
SELECT s.id, s.required,
       ARRAY(SELECT r.tag FROM unnest(s.required) AS r (tag) WHERE NOT EXISTS (SELECT FROM active a WHERE r.tag = ANY (a.tags)))::text[] AS missing
FROM states s
WHERE s.unserved
  AND s.unserved_since <= (SELECT now FROM clock) - sqlc.arg('over_ms')::bigint * interval '1 ms'
ORDER BY s.id;

-- name: TagSetDropUnused :execrows
-- Deletes the tag sets that no endpoint has used for a day. A set that a change uses now has a later
-- used_at.
DELETE
FROM tag_sets t
WHERE t.used_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - interval '1 day'
  AND NOT EXISTS (SELECT
                  FROM schedules s
                  WHERE s.claimed_by IS NULL AND (s.tag_set_id <> 0 OR s.priority <> 0) AND s.tag_set_id = t.id)
  AND NOT EXISTS (SELECT FROM schedules s WHERE s.claimed_by IS NOT NULL AND s.tag_set_id = t.id);

-- name: ScheduleListUnserved :many
-- Returns endpoints of unserved tag sets that are due, the oldest of each lane first. One-off runs
-- wait for a worker until their deadline.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT first.endpoint_id, first.owner_id, first.tag_set_id
FROM unnest(sqlc.arg('tag_set_ids')::int[]) AS t (id)
         CROSS JOIN priorities p
         CROSS JOIN LATERAL (SELECT s.endpoint_id, s.owner_id, s.tag_set_id
                             FROM schedules s
                             WHERE s.claimed_by IS NULL
                               AND (s.tag_set_id <> 0 OR s.priority <> 0)
                               AND s.tag_set_id = t.id
                               AND s.priority = p.priority
                               AND s.due_at <= (SELECT now FROM clock)
                               AND (s.source <> 'manual'
                                 OR EXISTS (SELECT FROM one_off_items o WHERE o.endpoint_id = s.endpoint_id AND o.slot = s.slot AND o.deadline_at <= (SELECT now FROM clock)))
                             ORDER BY s.due_at
                             LIMIT sqlc.arg('max_rows')::int) first
UNION ALL
(SELECT s.endpoint_id, s.owner_id, s.tag_set_id
 FROM schedules s
 WHERE 0 = ANY (sqlc.arg('tag_set_ids')::int[])
   AND s.claimed_by IS NULL
   AND s.tag_set_id = 0
   AND s.priority = 0
   AND s.due_at <= (SELECT now FROM clock)
   AND (s.source <> 'manual'
     OR EXISTS (SELECT FROM one_off_items o WHERE o.endpoint_id = s.endpoint_id AND o.slot = s.slot AND o.deadline_at <= (SELECT now FROM clock)))
 ORDER BY s.due_at
 LIMIT sqlc.arg('max_rows')::int);

-- name: ScheduleClaimUnserved :many
-- Claims one due endpoint for the sweeper if no active worker serves its tags now. The same
-- transaction records that its due time is skipped.
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('sweeper_id')::uuid,
    claimed_at  = clock.now,
    due_at      = clock.now + interval '1 min'
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE s.endpoint_id = sqlc.arg('endpoint_id')::uuid
  AND s.tag_set_id = sqlc.arg('tag_set_id')::int
  AND s.claimed_by IS NULL
  AND s.due_at <= clock.now
  AND NOT EXISTS (SELECT
                  FROM tag_sets t
                           JOIN workers w ON worker_serves(w, t.required)
                  WHERE t.id = s.tag_set_id
                    AND worker_state(w, clock.now, 6000) = 'active')
RETURNING s.endpoint_id, s.owner_id, s.tenant_id::uuid AS tenant_id, s.ctid, s.claim_token, s.slot, s.attempt, s.infra_attempt, s.source, clock.now::timestamptz AS now;
