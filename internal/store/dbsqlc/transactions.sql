-- name: Begin :exec
-- The three are statements like any other, so that they travel with others.
BEGIN;

-- name: Commit :execresult
COMMIT;

-- name: Rollback :exec
ROLLBACK;
