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
INSERT INTO hints (endpoint_id, kind, interval_ms, run_at, expires_at, reason, author, created_at)
VALUES (@endpoint_id, @kind, @interval_ms, @run_at, @expires_at, @reason, @author, @created_at);

-- name: DecisionInsert :exec
INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input)
VALUES (@endpoint_id, @decided_at, @cause, @author, @version, @next_run_at, @next_source, @next_steps, @input);

-- name: DecisionGetLast :one
SELECT *
FROM decisions
WHERE endpoint_id = @endpoint_id
ORDER BY id DESC
LIMIT 1;
