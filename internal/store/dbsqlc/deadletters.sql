-- name: DeadLetterRequests :many
-- Returns the origins of the requests of runs: the configuration in force at their claims, and the
-- parts that replace it. n is the position in the arguments. version is 0 if the configuration is no
-- longer kept. chained means that the run is that of a step of a chain.
SELECT w.n, coalesce(v.version, 0)::bigint AS version, v.spec, q.request,
       EXISTS (SELECT FROM chain_items i WHERE i.endpoint_id = w.endpoint_id AND i.slot = w.slot) AS chained
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('slots')::timestamptz[]) AS slot,
             unnest(sqlc.arg('claimed_at')::timestamptz[]) AS claimed_at, generate_subscripts(sqlc.arg('endpoint_ids')::uuid[], 1)::int AS n) w
         LEFT JOIN LATERAL (SELECT e.version, e.spec
                            FROM endpoint_versions e
                            WHERE e.endpoint_id = w.endpoint_id AND e.changed_at <= w.claimed_at
                            ORDER BY e.version DESC
                            LIMIT 1) v ON true
         LEFT JOIN run_requests q ON q.endpoint_id = w.endpoint_id AND q.scheduled_for = w.slot;

-- name: DeadLetterInsert :exec
-- Inserts the dead letters of runs that were given up, in the transaction that records the runs. A
-- status code of 0 and an empty text stand for null.
INSERT INTO dead_letters (id, tenant_id, endpoint_id, call, scheduled_for, created_at, attempt, infra_attempt, status, reason_code, status_code, error,
                          content_type, body, request, sealed_under)
SELECT unnest(sqlc.arg('ids')::uuid[]),
       unnest(sqlc.arg('tenant_ids')::uuid[]),
       unnest(sqlc.arg('endpoint_ids')::uuid[]),
       unnest(sqlc.arg('calls')::boolean[]),
       unnest(sqlc.arg('scheduled_for')::timestamptz[]),
       sqlc.arg('created_at')::timestamptz,
       unnest(sqlc.arg('attempts')::smallint[]),
       unnest(sqlc.arg('infra_attempts')::smallint[]),
       unnest(sqlc.arg('statuses')::text[]),
       unnest(sqlc.arg('reasons')::text[]),
       nullif(unnest(sqlc.arg('status_codes')::smallint[]), 0),
       nullif(unnest(sqlc.arg('errors')::text[]), ''),
       nullif(unnest(sqlc.arg('content_types')::text[]), ''),
       nullif(unnest(sqlc.arg('bodies')::bytea[]), ''),
       unnest(sqlc.arg('requests')::bytea[]),
       unnest(sqlc.arg('sealed_under')::text[]);

-- name: DeadLetterList :many
-- Returns dead letters, newest due time first.
SELECT *
FROM dead_letters
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('state')::text IS NULL OR state = sqlc.narg('state'))
  AND (sqlc.narg('reason')::text IS NULL OR reason_code = sqlc.narg('reason'))
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: DeadLetterListOldest :many
-- Returns dead letters above an ID, oldest due time first.
SELECT *
FROM dead_letters
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND state = @state
  AND (sqlc.narg('reason')::text IS NULL OR reason_code = sqlc.narg('reason'))
  AND id > sqlc.arg('after')::uuid
ORDER BY id
LIMIT sqlc.arg('max_rows')::int;

-- name: DeadLetterGet :one
SELECT *
FROM dead_letters
WHERE id = @id AND tenant_id = @tenant_id;

-- name: DeadLetterLockOpen :many
-- Locks an open dead letter. It returns no row if the dead letter was handled.
SELECT id
FROM dead_letters
WHERE id = @id AND tenant_id = @tenant_id AND state = 'open'
FOR UPDATE;

-- name: DeadLetterHandle :execrows
-- Handles an open dead letter, as a compare-and-set: of many statements at once one changes the row.
-- The others wait for its lock, find another state and change nothing.
UPDATE dead_letters
SET state          = @state,
    handled_at     = @handled_at,
    handled_by     = @handled_by,
    handled_reason = sqlc.narg('handled_reason'),
    replay_slot    = sqlc.narg('replay_slot'),
    replay_call    = sqlc.narg('replay_call')
WHERE id = @id AND tenant_id = @tenant_id AND state = 'open';

-- name: DeadLetterDropBefore :execrows
-- Deletes dead letters past their retention, at most 1000 per call.
DELETE
FROM dead_letters
WHERE id IN (SELECT d.id FROM dead_letters d WHERE d.created_at < sqlc.arg('before')::timestamptz ORDER BY d.created_at LIMIT 1000);

-- name: DeadLetterDropBeyond :execrows
-- Deletes the oldest dead letters of each tenant beyond a number, handled ones first.
DELETE
FROM dead_letters
WHERE id IN (SELECT ranked.id
             FROM (SELECT d.id, row_number() OVER (PARTITION BY d.tenant_id ORDER BY (d.state = 'open') DESC, d.created_at DESC) AS place
                   FROM dead_letters d
                   WHERE d.tenant_id IN (SELECT t.tenant_id FROM dead_letters t GROUP BY t.tenant_id HAVING count(*) > sqlc.arg('most')::bigint)) ranked
             WHERE ranked.place > sqlc.arg('most')::bigint);

-- name: DeadLetterGauge :one
-- Counts the open dead letters, at most max_rows.
SELECT count(*)::bigint AS open
FROM (SELECT FROM dead_letters WHERE state = 'open' LIMIT sqlc.arg('max_rows')::int) o;

-- name: DeadLettersStale :many
-- Locks dead letters whose requests are sealed under another key than the newest one.
SELECT id, tenant_id, sealed_under, request
FROM dead_letters
WHERE sealed_under NOT IN ('', sqlc.arg('newest')::text)
  AND id > sqlc.arg('after')::uuid
ORDER BY id
LIMIT sqlc.arg('max_rows')::int
FOR UPDATE;

-- name: DeadLetterReseal :exec
-- Stores the request of a dead letter sealed under another key.
UPDATE dead_letters
SET request = @request, sealed_under = @sealed_under
WHERE id = @id;
