-- name: HintGetMany :many
-- Returns the hints in force. It includes expired ones, because the governor judges expiry. The
-- order is that of the index hints_current, so that a plan cached while the table was empty still
-- uses that index.
SELECT *
FROM hints
WHERE endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND ended_at IS NULL
ORDER BY endpoint_id, kind;

-- name: HintEnd :exec
UPDATE hints
SET ended_at = sqlc.arg('ended_at')::timestamptz
WHERE endpoint_id = @endpoint_id AND kind = @kind AND ended_at IS NULL;

-- name: HintInsert :exec
INSERT INTO hints (endpoint_id, kind, interval_ms, run_at, expires_at, reason, author, created_at, outage_since)
VALUES (@endpoint_id, @kind, @interval_ms, @run_at, @expires_at, @reason, @author, @created_at, @outage_since);

-- name: DecisionInsert :exec
INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input, claim_token, basis)
VALUES (@endpoint_id, @decided_at, @cause, @author, @version, @next_run_at, @next_source, @next_steps, @input, @claim_token, @basis);

-- name: DecisionGetLast :one
SELECT *
FROM decisions
WHERE endpoint_id = @endpoint_id
ORDER BY id DESC
LIMIT 1;

-- name: DecisionDropBefore :one
-- Deletes decisions before an instant, in pages by ID. The last decision of an endpoint is kept,
-- because it may be in force. The statement returns how many rows of the page are before the
-- instant, and the last ID of them.
WITH page AS MATERIALIZED (
    SELECT d.id, d.endpoint_id
    FROM (SELECT o.id, o.endpoint_id, o.decided_at FROM decisions o WHERE o.id > sqlc.arg('after')::bigint ORDER BY o.id LIMIT sqlc.arg('max_rows')::int) d
    WHERE d.decided_at < sqlc.arg('before')::timestamptz
), dropped AS (
    DELETE FROM decisions
    WHERE id IN (SELECT p.id
                 FROM page p
                 WHERE EXISTS (SELECT 1 FROM decisions later WHERE later.endpoint_id = p.endpoint_id AND later.id > p.id))
    RETURNING id
)
SELECT count(*) AS old, coalesce(max(p.id), 0)::bigint AS last, (SELECT count(*) FROM dropped) AS dropped
FROM page p;

-- name: HintDropBefore :one
-- Works like DecisionDropBefore for hints that ended before the instant.
WITH page AS MATERIALIZED (
    SELECT h.id, h.over_at
    FROM (SELECT o.id, o.created_at, coalesce(o.ended_at, o.expires_at) AS over_at
          FROM hints o
          WHERE o.id > sqlc.arg('after')::bigint
          ORDER BY o.id
          LIMIT sqlc.arg('max_rows')::int) h
    WHERE h.created_at < sqlc.arg('before')::timestamptz
), dropped AS (
    DELETE FROM hints
    WHERE id IN (SELECT p.id FROM page p WHERE p.over_at < sqlc.arg('before')::timestamptz)
    RETURNING id
)
SELECT count(*) AS old, coalesce(max(p.id), 0)::bigint AS last, (SELECT count(*) FROM dropped) AS dropped
FROM page p;

-- name: DecisionList :many
-- Returns decisions of an endpoint outside a finish, below a number, newest first. The range of one
-- endpoint keeps the order of the index of endpoints necessary. With an equality the planner may
-- scan the primary key backwards, and visit the decisions of all other endpoints.
SELECT d.*
FROM decisions d
         JOIN endpoints e ON e.id = d.endpoint_id
WHERE d.endpoint_id BETWEEN sqlc.arg('endpoint_id')::uuid AND sqlc.arg('endpoint_id')::uuid
  AND e.tenant_id = @tenant_id
  AND d.id < sqlc.arg('before')::bigint
ORDER BY d.endpoint_id, d.id DESC
LIMIT sqlc.arg('max_rows')::int;
