-- name: ScheduleClaimDue :many
-- Claims the endpoints that come due within the horizon, oldest first, for one worker. An expired
-- claim that was not started is taken over. A running row is not claimed, because its run has to be
-- settled first. Every claim raises the token, which revokes the claim before it. Rows that another
-- transaction holds are skipped. Rows are addressed by ctid, because under an old snapshot a lookup
-- by key would visit every dead version of the row. If the statement executes after its deadline,
-- it claims no row, because its caller has given up. The scan starts at from_at, a low-water mark
-- on due_at, or at the low end of the index. Endpoints with tags or with a priority other than
-- normal are in lanes of their own. The claim scans the lanes of the tag sets that the worker
-- serves. It takes the rows of all lanes in the order of their turns: the due time, one minute
-- earlier for each step of priority. A lane that the worker yields to others is claimed 5 s after
-- its due times.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), served AS MATERIALIZED (
    SELECT l.tag_set_id, l.priority, l.priority * interval '60 s' AS head_start,
           (SELECT now FROM clock) + CASE WHEN l.yields THEN interval '-5 s' ELSE sqlc.arg('horizon_ms')::bigint * interval '1 ms' END AS until
    FROM (SELECT unnest(sqlc.arg('tag_set_ids')::int[]) AS tag_set_id, unnest(sqlc.arg('priorities')::smallint[]) AS priority,
                 unnest(sqlc.arg('yields')::boolean[]) AS yields) l
), expired AS MATERIALIZED (
    SELECT s.ctid, s.endpoint_id
    FROM schedules s
    WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
      AND s.claimed_by IS NOT NULL
      AND s.run_id IS NULL
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= (SELECT now FROM clock)
      AND s.tag_set_id = ANY (sqlc.arg('tag_set_ids')::int[])
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE OF s SKIP LOCKED
), apart AS MATERIALIZED (
    SELECT first.ctid, first.turn
    FROM served
             CROSS JOIN LATERAL (SELECT s.ctid, s.due_at - served.head_start AS turn
                                 FROM schedules s
                                 WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
                                   AND s.claimed_by IS NULL
                                   AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                   AND s.tag_set_id = served.tag_set_id
                                   AND s.priority = served.priority
                                   AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz) + least(served.head_start, interval '0')
                                   AND s.due_at <= served.until
                                 ORDER BY s.due_at
                                 LIMIT sqlc.arg('max_rows')::int
                                 FOR UPDATE OF s SKIP LOCKED) first
), fresh AS MATERIALIZED (
    SELECT s.ctid, s.due_at AS turn
    FROM schedules s
    WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
      AND 0 = ANY (sqlc.arg('tag_set_ids')::int[])
      AND s.claimed_by IS NULL
      AND s.tag_set_id = 0
      AND s.priority = 0
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms'
    ORDER BY s.due_at
    LIMIT sqlc.arg('max_rows')::int - (SELECT count(*) FROM expired)
    FOR UPDATE OF s SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT waiting.ctid
    FROM (SELECT ctid, turn FROM fresh UNION ALL SELECT ctid, turn FROM apart) waiting
    ORDER BY waiting.turn
    LIMIT sqlc.arg('max_rows')::int - (SELECT count(*) FROM expired)
)
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('worker_id')::uuid,
    claimed_at  = (SELECT now FROM clock),
    due_at      = greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
WHERE s.ctid = ANY (ARRAY(SELECT ctid FROM expired UNION ALL SELECT ctid FROM chosen))
RETURNING s.endpoint_id, s.owner_id, s.ctid, s.claim_token, s.slot, s.planned_at, s.attempt, s.infra_attempt, s.source, s.version, s.hinted, s.priority,
    (SELECT now FROM clock)::timestamptz AS claimed_at, s.due_at AS locked_until,
    (s.endpoint_id = ANY (ARRAY(SELECT endpoint_id FROM expired)))::boolean AS expired;

-- name: ScheduleClaimShares :many
-- Claims the oldest endpoints of each given tenant that come due within the horizon, up to a quota
-- per tenant. It takes over no expired claim. Otherwise it works like ScheduleClaimDue. Tenant and
-- due time are compared as one row value, so that only the index by tenant matches. The index by
-- time would read the due endpoints of all tenants.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), served AS MATERIALIZED (
    SELECT l.tag_set_id, l.priority, l.priority * interval '60 s' AS head_start,
           (SELECT now FROM clock) + CASE WHEN l.yields THEN interval '-5 s' ELSE sqlc.arg('horizon_ms')::bigint * interval '1 ms' END AS until
    FROM (SELECT unnest(sqlc.arg('tag_set_ids')::int[]) AS tag_set_id, unnest(sqlc.arg('priorities')::smallint[]) AS priority,
                 unnest(sqlc.arg('yields')::boolean[]) AS yields) l
), apart AS MATERIALIZED (
    SELECT t.id AS tenant_id, first.ctid, first.turn
    FROM unnest(sqlc.arg('tenant_ids')::uuid[]) AS t (id)
             CROSS JOIN served
             CROSS JOIN LATERAL (SELECT s.ctid, s.due_at - served.head_start AS turn
                                 FROM schedules s
                                 WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
                                   AND s.claimed_by IS NULL
                                   AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                   AND s.tenant_id = t.id
                                   AND s.tag_set_id = served.tag_set_id
                                   AND s.priority = served.priority
                                   AND s.due_at <= served.until
                                 ORDER BY s.due_at
                                 LIMIT sqlc.arg('share')::int
                                 FOR UPDATE OF s SKIP LOCKED) first
), fresh AS MATERIALIZED (
    SELECT t.id AS tenant_id, oldest.ctid, oldest.turn
    FROM unnest(sqlc.arg('tenant_ids')::uuid[]) AS t (id)
             CROSS JOIN LATERAL (SELECT s.ctid, s.due_at AS turn
                                 FROM schedules s
                                 WHERE (SELECT now FROM clock) <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
                                   AND 0 = ANY (sqlc.arg('tag_set_ids')::int[])
                                   AND s.claimed_by IS NULL
                                   AND s.tag_set_id = 0
                                   AND s.priority = 0
                                   AND (s.tenant_id, s.due_at) >= (t.id, '-infinity'::timestamptz)
                                   AND (s.tenant_id, s.due_at) <= (t.id, (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms')
                                 ORDER BY s.tenant_id, s.due_at
                                 LIMIT sqlc.arg('share')::int
                                 FOR UPDATE OF s SKIP LOCKED) oldest
), due AS MATERIALIZED (
    SELECT ranked.ctid
    FROM (SELECT waiting.ctid, row_number() OVER (PARTITION BY waiting.tenant_id ORDER BY waiting.turn) AS rank
          FROM (SELECT tenant_id, ctid, turn FROM fresh UNION ALL SELECT tenant_id, ctid, turn FROM apart) waiting) ranked
    WHERE ranked.rank <= sqlc.arg('share')::int
)
UPDATE schedules s
SET claim_token = s.claim_token + 1,
    claimed_by  = sqlc.arg('worker_id')::uuid,
    claimed_at  = (SELECT now FROM clock),
    due_at      = greatest((SELECT now FROM clock), s.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
WHERE s.ctid = ANY (ARRAY(SELECT ctid FROM due))
RETURNING s.endpoint_id, s.owner_id, s.ctid, s.claim_token, s.slot, s.planned_at, s.attempt, s.infra_attempt, s.source, s.version, s.hinted, s.priority,
    (SELECT now FROM clock)::timestamptz AS claimed_at, s.due_at AS locked_until, false AS expired;

-- name: ScheduleDueTenants :many
-- Returns the tenants with unclaimed endpoints that come due within the horizon and that the worker
-- serves. It costs two index lookups per tenant, and one more per served lane for tenants with
-- endpoints outside of the ordinary lane.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), served AS MATERIALIZED (
    SELECT l.tag_set_id, l.priority,
           (SELECT now FROM clock) + CASE WHEN l.yields THEN interval '-5 s' ELSE sqlc.arg('horizon_ms')::bigint * interval '1 ms' END AS until
    FROM (SELECT unnest(sqlc.arg('tag_set_ids')::int[]) AS tag_set_id, unnest(sqlc.arg('priorities')::smallint[]) AS priority,
                 unnest(sqlc.arg('yields')::boolean[]) AS yields) l
)
SELECT t.id
FROM tenants t
         CROSS JOIN LATERAL (SELECT (SELECT s.tenant_id
                                     FROM schedules s
                                     WHERE s.claimed_by IS NULL
                                       AND s.tag_set_id = 0
                                       AND s.priority = 0
                                       AND (s.tenant_id, s.due_at) >= (t.id, '-infinity'::timestamptz)
                                       AND (s.tenant_id, s.due_at) <= (t.id, (SELECT now FROM clock) + sqlc.arg('horizon_ms')::bigint * interval '1 ms')
                                     ORDER BY s.tenant_id, s.due_at
                                     LIMIT 1) IS NOT NULL AS ordinary,
                                    (SELECT s.tenant_id
                                     FROM schedules s
                                     WHERE s.claimed_by IS NULL
                                       AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                       AND s.tenant_id = t.id
                                     ORDER BY s.tenant_id, s.tag_set_id
                                     LIMIT 1) IS NOT NULL AS apart
                             OFFSET 0) has
WHERE has.ordinary AND 0 = ANY (sqlc.arg('tag_set_ids')::int[])
   OR has.apart AND EXISTS (SELECT
                            FROM served l
                                     CROSS JOIN LATERAL (SELECT s.due_at
                                                         FROM schedules s
                                                         WHERE s.claimed_by IS NULL
                                                           AND (s.tag_set_id <> 0 OR s.priority <> 0)
                                                           AND s.tenant_id = t.id
                                                           AND s.tag_set_id = l.tag_set_id
                                                           AND s.priority = l.priority
                                                           AND s.due_at <= l.until
                                                         ORDER BY s.due_at
                                                         LIMIT 1) first)
ORDER BY t.id;

-- name: ScheduleRelease :execrows
-- Releases claims that were not started. They can be claimed again at their planned time. The token
-- is raised, so that a late start of the same claim is refused. A claim with rest_ms comes due only
-- after that rest; its planned time stays. A claim that was revoked or started meanwhile is left
-- alone. ANY (ARRAY[...]) in place of an equality forces a lookup by key. Otherwise the planner
-- could choose a sequential scan while the table is empty, and the plan is cached.
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
-- Extends the locks of runs that this worker still holds, by endpoint, run and token, and returns
-- them as kept. A lock that has expired in database time is not revived. It is returned as not
-- kept, because no other process owns its run until a sweep settles it. A run that is not returned
-- was settled.
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
