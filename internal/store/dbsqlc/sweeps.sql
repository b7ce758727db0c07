-- name: SweepLock :one
-- Tries to become the one sweeper of the database for as long as the transaction lasts. The sweeps work on other connections; a sweeper
-- that stands still, and so leaves this one idle, loses its turn.
SELECT pg_try_advisory_xact_lock(hashtext('rubato.sweeper')) AS alone,
       set_config('idle_in_transaction_session_timeout', sqlc.arg('idle_ms')::bigint::text, true)::text AS idle_limit;

-- name: ScheduleClampLocks :execrows
-- Brings back the locks of claims that end later than any that could be granted now: they were granted by a clock that has been set
-- back since. 10 s more than that is left alone: it is longer than a sweep lasts, so a lock that was granted since this statement read
-- the clock is not one of them.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), ahead AS MATERIALIZED (
    SELECT s.endpoint_id
    FROM schedules s
    WHERE s.claimed_by IS NOT NULL
      AND s.due_at > (SELECT now FROM clock) + sqlc.arg('lock_ttl_ms')::int * interval '1 ms' + interval '10 s'
      AND s.due_at > greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms' + interval '10 s'
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE schedules s
SET due_at = greatest(clock.now, s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
FROM clock
WHERE s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM ahead));

-- name: LiveRunClampLocks :execrows
-- The same for the locks and deadlines of live runs: each is counted again from now where it counts from an instant that is still to
-- come.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
UPDATE live_runs l
SET claimed_at   = least(l.claimed_at, clock.now),
    started_at   = least(l.started_at, clock.now),
    deadline_at  = least(l.deadline_at, clock.now + (l.deadline_at - l.started_at)),
    locked_until = least(l.locked_until, clock.now + least(sqlc.arg('lock_ttl_ms')::int * interval '1 ms',
                                                           l.deadline_at - l.started_at + interval '5 s'))
FROM clock
WHERE l.started_at > clock.now + interval '10 s'
   OR l.locked_until > clock.now + sqlc.arg('lock_ttl_ms')::int * interval '1 ms' + interval '10 s';

-- name: WorkerClampBeats :execrows
-- The same for workers: one that has died would else be heard of until the clock has come as far as it was.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
UPDATE workers w
SET heartbeat_at = clock.now
FROM clock
WHERE w.heartbeat_at > clock.now + interval '10 s';

-- name: ScheduleListStuck :many
-- Claims whose locks have been over for long and which nobody has taken since. It walks the due index from its oldest end, and no
-- further than 10,000 rows: where more than that is overdue for so long, claims are the least of all worries.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT s.endpoint_id
FROM (SELECT o.endpoint_id, o.due_at, o.claimed_by
      FROM schedules o
      WHERE o.due_at < (SELECT now FROM clock) - sqlc.arg('stuck_ms')::bigint * interval '1 ms'
      ORDER BY o.due_at
      LIMIT 10000) s
WHERE s.claimed_by IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = s.endpoint_id)
ORDER BY s.due_at
LIMIT sqlc.arg('max_rows')::int;

-- name: ScheduleFreeStuck :execrows
-- Frees such claims, if they still are. Their rows are locked, and no start is in flight.
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, due_at = s.planned_at, claim_token = s.claim_token + 1
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND s.due_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('stuck_ms')::bigint * interval '1 ms'
  AND s.claimed_by IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = s.endpoint_id);

-- name: LiveRunListLost :many
-- Live runs that nothing will ever update, each with the signal that says so. The lock ran out in database time, and the deadline has
-- passed by 5 s, which after a step of the clock proves nothing against a worker that beats; or, where it has not passed, the worker has
-- said goodbye or was never there, or it has been silent for stale_after and silence is believed, or the lock has been over for so long
-- that silence counts in any case.
SELECT sqlc.embed(l),
       CASE WHEN l.deadline_at + interval '5 s' < clock.now THEN 'deadline'
            WHEN w.id IS NULL OR w.state = 'inactive' THEN 'goodbye'
            WHEN l.locked_until + sqlc.arg('valve_ms')::bigint * interval '1 ms' < clock.now THEN 'valve'
            ELSE 'silence' END::text AS signal
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE l.locked_until < clock.now
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

-- name: LiveRunEvidence :one
-- What speaks for a live run being lost, for its story; LiveRunSettle decides.
SELECT l.locked_until, l.deadline_at, l.deadline_at + interval '5 s' < clock.now AS overdue, w.state, w.heartbeat_at
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE l.endpoint_id = @endpoint_id AND l.run_id = @run_id;

-- name: LiveRunSettle :execrows
-- Ends a live run that was found lost, by run and token, if the whole condition still holds: no heartbeat has extended its lock
-- meanwhile, and its worker has not spoken up.
DELETE
FROM live_runs l USING (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE l.endpoint_id = sqlc.arg('endpoint_id')
  AND l.run_id = sqlc.arg('run_id')
  AND l.claim_token = sqlc.arg('token')
  AND l.locked_until < clock.now
  AND ((l.deadline_at + interval '5 s' < clock.now
    AND NOT (sqlc.arg('distrust_deadlines')::boolean
        AND EXISTS (SELECT 1
                    FROM workers w
                    WHERE w.id = l.worker_id AND w.state <> 'inactive' AND w.heartbeat_at + interval '6 s' >= clock.now)))
    OR NOT EXISTS (SELECT 1
                   FROM workers w
                   WHERE w.id = l.worker_id
                     AND w.state <> 'inactive'
                     AND (w.heartbeat_at + sqlc.arg('stale_after_ms')::bigint * interval '1 ms' >= clock.now
                       OR (sqlc.arg('distrust_silence')::boolean
                           AND l.locked_until + sqlc.arg('valve_ms')::bigint * interval '1 ms' >= clock.now))));

-- name: LiveRunSurvey :one
-- How many runs are live, and how many of them silence alone would settle.
SELECT count(*) AS live,
       count(*) FILTER (WHERE l.locked_until < clock.now AND l.deadline_at + interval '5 s' >= clock.now AND w.state <> 'inactive'
           AND w.heartbeat_at + sqlc.arg('stale_after_ms')::bigint * interval '1 ms' < clock.now) AS silent
FROM live_runs l
         LEFT JOIN workers w ON w.id = l.worker_id,
     (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock;

-- name: LiveRunListOrphans :many
-- Live runs that the schedule of their endpoint knows nothing of: there is none, or it is under another token. The lock has been over
-- for so long that whoever held it has let go.
SELECT l.*
FROM live_runs l
         LEFT JOIN schedules s ON s.endpoint_id = l.endpoint_id
WHERE l.locked_until < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('over_ms')::bigint * interval '1 ms'
  AND s.claim_token IS DISTINCT FROM l.claim_token
  AND NOT l.run_id = ANY (sqlc.arg('except_ids')::uuid[])
ORDER BY l.locked_until
LIMIT sqlc.arg('max_rows')::int;

-- name: LiveRunSettleOrphan :execrows
-- Ends such a run, by run and token, if it still is one.
DELETE
FROM live_runs l
WHERE l.endpoint_id = sqlc.arg('endpoint_id')
  AND l.run_id = sqlc.arg('run_id')
  AND l.claim_token = sqlc.arg('token')
  AND l.locked_until < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('over_ms')::bigint * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM schedules s WHERE s.endpoint_id = l.endpoint_id AND s.claim_token = l.claim_token);

-- name: ScheduleRaiseToken :exec
-- Keeps the fence of an endpoint at or above what a target may have seen.
UPDATE schedules
SET claim_token = greatest(claim_token, sqlc.arg('token')::bigint)
WHERE endpoint_id = sqlc.arg('endpoint_id');

-- name: WorkerRetire :execrows
-- Marks workers as gone that have been silent for long and left nothing live. One that lives on comes back by its next beat.
UPDATE workers w
SET state = 'inactive'
WHERE w.state <> 'inactive'
  AND w.heartbeat_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - sqlc.arg('silent_ms')::bigint * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.worker_id = w.id);
