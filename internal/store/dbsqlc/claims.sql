-- name: ScheduleClaimDue :many
-- Takes the endpoints that come due within the horizon, oldest first, for one worker. A row that is already claimed can be taken
-- only once its lock is over, and never while a run of it is live: that run has to be settled first. Every claim raises the
-- token, which revokes the claim before it. Rows that another worker is taking at this moment are passed over. The keys go to the
-- update as an array: joined with the table, they make the planner read all of it until it holds millions of rows. Carried out after its
-- time, as when the database stood still, it takes nothing: nobody waits for its answer any more. It begins at the oldest, or from an instant
-- on.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    SELECT s.endpoint_id, s.claimed_by IS NOT NULL AS expired
    FROM schedules s
    WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms'
      AND (s.claimed_by IS NULL
        OR (s.due_at <= (SELECT now FROM clock) AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = s.endpoint_id)))
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('worker_id')::uuid,
    claimed_at  = (SELECT now FROM clock),
    due_at      = greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
WHERE s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM due))
RETURNING s.endpoint_id, s.claim_token, s.slot, s.planned_at, s.attempt, s.source, s.version, (SELECT now FROM clock)::timestamptz AS claimed_at,
    s.due_at AS locked_until, (s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM due WHERE expired)))::boolean AS expired;

-- name: ScheduleClaimShares :many
-- Takes the endpoints of some tenants that come due within the horizon, the oldest of each, up to a share; nothing that is claimed already.
-- Otherwise it does what ScheduleClaimDue does. Tenant and time are compared as one value, so that only the index by tenant serves: the
-- planner could take the one by time, and read what is due of all.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    SELECT oldest.endpoint_id
    FROM unnest(sqlc.arg('tenant_ids')::uuid[]) AS t (id)
             CROSS JOIN LATERAL (SELECT s.endpoint_id
                                 FROM schedules s
                                 WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
                                   AND s.claimed_by IS NULL
                                   AND (s.tenant_id, s.due_at) >= (t.id, '-infinity'::timestamptz)
                                   AND (s.tenant_id, s.due_at) <= (t.id, (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms')
                                 ORDER BY s.tenant_id, s.due_at
                                 LIMIT sqlc.arg('share')::int
                                 FOR UPDATE OF s SKIP LOCKED) oldest
)
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('worker_id')::uuid,
    claimed_at  = (SELECT now FROM clock),
    due_at      = greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
WHERE s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM due))
RETURNING s.endpoint_id, s.claim_token, s.slot, s.planned_at, s.attempt, s.source, s.version, (SELECT now FROM clock)::timestamptz AS claimed_at,
    s.due_at AS locked_until, false AS expired;

-- name: ScheduleDueTenants :many
-- Which tenants have endpoints that come due within the horizon and are not claimed: one look into the index for each tenant there is.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
SELECT t.id
FROM tenants t
         CROSS JOIN LATERAL (SELECT s.due_at
                             FROM schedules s
                             WHERE s.claimed_by IS NULL
                               AND (s.tenant_id, s.due_at) >= (t.id, '-infinity'::timestamptz)
                               AND (s.tenant_id, s.due_at) <= (t.id, (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms')
                             ORDER BY s.tenant_id, s.due_at
                             LIMIT 1) oldest
ORDER BY t.id;

-- name: ScheduleRelease :execrows
-- Gives back claims that were not started: claimable at their planned time, under a higher token, so that a start of the same claim
-- that arrives late does not start. One with a rest does not come due for so long; what it is planned for stays. A claim that was revoked
-- or started meanwhile is left alone. ANY (ARRAY[...]) in the place of an equality leaves the planner one way: looking rows up by key. It
-- could otherwise begin at the table, which is cheap as long as that is empty, and the plan is kept.
WITH given AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('tokens')::bigint[]) AS token,
           unnest(sqlc.arg('rest_ms')::bigint[]) AS rest_ms
)
UPDATE schedules s
SET claimed_by = NULL, claimed_at = NULL, claim_token = s.claim_token + 1,
    due_at = CASE WHEN given.rest_ms > 0
                      THEN greatest(s.planned_at, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + given.rest_ms * interval '1 ms')
                  ELSE s.planned_at END
FROM given
WHERE s.endpoint_id = ANY (ARRAY[given.endpoint_id])
  AND s.claim_token = given.token
  AND s.claimed_by = sqlc.arg('worker_id')::uuid
  AND NOT EXISTS (SELECT 1 FROM live_runs l WHERE l.endpoint_id = ANY (ARRAY[s.endpoint_id]));

-- name: LiveRunExtendLocks :many
-- Moves on the locks of runs that are still this worker's, by run and token, and returns them as kept. A lock that has run out in
-- database time is not revived: it is returned too, because nobody else has its run as long as its row is there. What does not come back
-- was settled by somebody else.
WITH held AS (
    SELECT unnest(sqlc.arg('run_ids')::uuid[]) AS run_id, unnest(sqlc.arg('tokens')::bigint[]) AS token
), extended AS (
    UPDATE live_runs l
    SET locked_until = least(coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('lock_ttl_ms')::int * interval '1 ms',
                             l.deadline_at + interval '5 s')
    FROM held
    WHERE l.run_id = held.run_id
      AND l.claim_token = held.token
      AND l.worker_id = sqlc.arg('worker_id')::uuid
      AND l.locked_until > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
    RETURNING l.run_id
)
SELECT e.run_id, true AS kept
FROM extended e
UNION ALL
SELECT l.run_id, false
FROM live_runs l JOIN held ON held.run_id = l.run_id AND held.token = l.claim_token
WHERE l.worker_id = sqlc.arg('worker_id')::uuid
  AND l.run_id NOT IN (SELECT e.run_id FROM extended e);

-- name: Clock :one
SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;
