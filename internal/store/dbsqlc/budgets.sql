-- name: BudgetPut :exec
-- Stores a budget. A change of the number of runs keeps the price, which follows within minutes.
INSERT INTO budgets (tenant_id, name, budget, price, stepped_at, created_at, updated_at)
VALUES (@tenant_id, @name, @budget, @price, @now, @now, @now)
ON CONFLICT (tenant_id, name) DO UPDATE
    SET budget     = excluded.budget,
        updated_at = excluded.updated_at;

-- name: BudgetLock :one
-- Locks a budget for a change.
SELECT *
FROM budgets
WHERE tenant_id = @tenant_id
  AND name = @name
FOR UPDATE;

-- name: BudgetGet :one
SELECT *
FROM budgets
WHERE tenant_id = @tenant_id
  AND name = @name;

-- name: BudgetFind :many
-- Returns the budgets of a tenant that have one of some names.
SELECT *
FROM budgets
WHERE tenant_id = @tenant_id
  AND name = ANY (sqlc.arg('names')::text[]);

-- name: BudgetCount :one
SELECT count(*) FROM budgets WHERE tenant_id = @tenant_id;

-- name: BudgetList :many
SELECT *
FROM budgets
WHERE tenant_id = @tenant_id
  AND name > @after
ORDER BY name
LIMIT sqlc.arg('max_rows');

-- name: BudgetDelete :execrows
DELETE FROM budgets WHERE tenant_id = @tenant_id AND name = @name;

-- name: BudgetSpend :exec
-- Adds the runs of one worker. The rows are locked in the order of their keys, so that two workers
-- cannot deadlock.
WITH spent AS (
    SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
           unnest(sqlc.arg('names')::text[]) AS name,
           unnest(sqlc.arg('runs')::bigint[]) AS runs
), locked AS (
    SELECT b.tenant_id, b.name, spent.runs
    FROM budgets b
             JOIN spent USING (tenant_id, name)
    ORDER BY b.tenant_id, b.name
    FOR UPDATE OF b
)
UPDATE budgets b
SET used = b.used + locked.runs
FROM locked
WHERE b.tenant_id = locked.tenant_id
  AND b.name = locked.name;

-- name: BudgetListDue :many
-- Locks the budgets whose price is due for a step. A budget that another worker steps is skipped.
SELECT *
FROM budgets
WHERE stepped_at <= @before
ORDER BY tenant_id, name
FOR UPDATE SKIP LOCKED;

-- name: BudgetStep :exec
-- Stores new prices of locked budgets and starts their next count.
WITH next AS (
    SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
           unnest(sqlc.arg('names')::text[]) AS name,
           unnest(sqlc.arg('prices')::double precision[]) AS price
)
UPDATE budgets b
SET price = next.price, used = 0, stepped_at = @now
FROM next
WHERE b.tenant_id = next.tenant_id
  AND b.name = next.name;

-- name: BudgetListAll :many
-- Returns every budget for the cache of a worker.
SELECT tenant_id, name, budget, price
FROM budgets;
