-- name: TenantList :many
-- Every tenant, oldest first, with what it may call besides what everybody may.
SELECT id, name, created_at, egress_allow
FROM tenants
ORDER BY created_at, id;

-- name: TenantAllowed :many
-- The tenants that may call more than others. There are few, and every worker reads them every few seconds.
SELECT id, egress_allow
FROM tenants
WHERE cardinality(egress_allow) > 0;

-- name: TenantAllowedOf :one
-- What one tenant may call besides what everybody may. Until the transaction ends nobody else changes it.
SELECT egress_allow
FROM tenants
WHERE id = @id
FOR NO KEY UPDATE;

-- name: TenantAllow :exec
-- Replaces what a tenant may call besides what everybody may.
UPDATE tenants
SET egress_allow = @egress_allow
WHERE id = @id;
