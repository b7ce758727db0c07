-- name: Begin :exec
-- Begins a transaction. Begin, Commit and Rollback are ordinary statements, so that they can be
-- pipelined with others.
BEGIN;

-- name: PlanGeneric :exec
-- Makes the rest of the transaction use cached generic plans, also for foreign key checks.
SET LOCAL plan_cache_mode = force_generic_plan;

-- name: PlanCustom :exec
-- Makes the rest of the transaction plan each statement for its actual values, because a generic
-- plan for the optional filters of a list cannot use the index for the filters that are set.
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: Commit :execresult
COMMIT;

-- name: Rollback :exec
ROLLBACK;
