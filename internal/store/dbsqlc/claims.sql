-- name: ScheduleClaimDue :many
-- Claims the endpoints that come due within the horizon, oldest first, for one worker. A claim whose lock has run out and which was never
-- started is taken over; a running row is not, because its run has to be settled first. Every claim raises the token, which revokes the
-- claim before it. Rows that another transaction holds are skipped. Rows are addressed by their place (ctid): under an old snapshot a
-- lookup by key would visit every dead version of the row. A statement that executes after its deadline claims nothing, because its
-- caller has given up. The scan starts at from_at, a low-water mark on due_at, or at the bottom of the index.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), expired AS MATERIALIZED (
    SELECT s.ctid AS place, s.endpoint_id
    FROM schedules s
    WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
      AND s.claimed_by IS NOT NULL
      AND s.run_id IS NULL
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= (SELECT now FROM clock)
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF s SKIP LOCKED
), fresh AS MATERIALIZED (
    SELECT s.ctid AS place
    FROM schedules s
    WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
      AND s.claimed_by IS NULL
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms'
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int - (SELECT count(*) FROM expired)
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('worker_id')::uuid,
    claimed_at  = (SELECT now FROM clock),
    due_at      = greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
WHERE s.ctid = ANY (ARRAY(SELECT place FROM expired UNION ALL SELECT place FROM fresh))
RETURNING s.endpoint_id, s.ctid AS place, s.claim_token, s.slot, s.planned_at, s.attempt, s.infra_attempt, s.source, s.version, s.hinted,
    (SELECT now FROM clock)::timestamptz AS claimed_at, s.due_at AS locked_until,
    (s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM expired)))::boolean AS expired;

-- name: ScheduleClaimShares :many
-- Takes the endpoints of some tenants that come due within the horizon, the oldest of each, up to a share; nothing that is claimed already.
-- Otherwise it does what ScheduleClaimDue does. Tenant and time are compared as one value, so that only the index by tenant serves: the
-- planner could take the one by time, and read what is due of all.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    SELECT oldest.place
    FROM unnest(sqlc.arg('tenant_ids')::uuid[]) AS t (id)
             CROSS JOIN LATERAL (SELECT s.ctid AS place
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
WHERE s.ctid = ANY (ARRAY(SELECT place FROM due))
RETURNING s.endpoint_id, s.ctid AS place, s.claim_token, s.slot, s.planned_at, s.attempt, s.infra_attempt, s.source, s.version, s.hinted,
    (SELECT now FROM clock)::timestamptz AS claimed_at, s.due_at AS locked_until, false AS expired;

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
  AND (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
  AND s.run_id IS NULL;

-- name: RunExtendLocks :many
-- Extends the locks of runs that are still this worker's, by endpoint, run and token, and returns them as kept. A lock that has run out in
-- database time is not revived: it is returned as not kept, because no other process owns its run until a sweep settles it. A run that does
-- not come back was settled.
WITH held AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
           unnest(sqlc.arg('tokens')::bigint[]) AS token
), extended AS (
    UPDATE schedules s
    SET due_at = least(coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('lock_ttl_ms')::int * interval '1 ms',
                       s.deadline_at + interval '5 s')
    FROM held
    WHERE s.endpoint_id = ANY (ARRAY[held.endpoint_id])
      AND s.run_id = held.run_id
      AND s.claim_token = held.token
      AND (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
      AND s.due_at > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
    RETURNING s.run_id
)
SELECT e.run_id::uuid AS run_id, true AS kept
FROM extended e
UNION ALL
SELECT s.run_id::uuid, false
FROM held
         JOIN schedules s ON s.endpoint_id = ANY (ARRAY[held.endpoint_id]) AND s.run_id = held.run_id AND s.claim_token = held.token
WHERE (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
  AND s.run_id NOT IN (SELECT e.run_id FROM extended e);

-- name: Clock :one
SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;
