-- name: Begin :exec
-- The three of a transaction are statements like any other, so that they travel with others.
BEGIN;

-- name: KeepPlans :exec
-- Lets the rest of the transaction use plans that were made once, for what it looks up and for what the database looks up in its name.
SET LOCAL plan_cache_mode = force_generic_plan;

-- name: PlanForValues :exec
-- Makes the rest of the transaction plan each statement for the values at hand: a plan for any values of a list's filters could use no
-- index that depends on which of them are given.
SET LOCAL plan_cache_mode = force_custom_plan;

-- name: Commit :execresult
COMMIT;

-- name: Rollback :exec
ROLLBACK;
