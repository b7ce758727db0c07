-- name: HintGetMany :many
-- The hints in force, expired ones included: the governor judges that. Their index has this order, so a plan that was made while there
-- were none does not read those that have ended.
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
INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input)
VALUES (@endpoint_id, @decided_at, @cause, @author, @version, @next_run_at, @next_source, @next_steps, @input);

-- name: DecisionGetLast :one
SELECT *
FROM decisions
WHERE endpoint_id = @endpoint_id
ORDER BY id DESC
LIMIT 1;

-- name: DecisionDropBefore :one
-- Removes decisions from before an instant that a later one of their endpoint has followed, among the next ones after a place, and tells
-- how many of these are from before it and where the last of them stands. The last decision of an endpoint may be the one in force.
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
SELECT count(*) AS old, coalesce(max(p.id), 0)::bigint AS place, (SELECT count(*) FROM dropped) AS dropped
FROM page p;

-- name: HintDropBefore :one
-- The same of hints that were over by then.
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
SELECT count(*) AS old, coalesce(max(p.id), 0)::bigint AS place, (SELECT count(*) FROM dropped) AS dropped
FROM page p;
