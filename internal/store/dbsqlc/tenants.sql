-- name: TenantList :many
-- Returns every tenant with its egress allow list, oldest first.
SELECT id, name, created_at, egress_allow
FROM tenants
ORDER BY created_at, id;

-- name: TenantAllowed :many
-- Returns the tenants with an egress allow list. They are few, and every worker reads them every
-- few seconds.
SELECT id, egress_allow
FROM tenants
WHERE cardinality(egress_allow) > 0;

-- name: TenantAllowedOf :one
-- Returns the egress allow list of one tenant, and locks it until the transaction ends.
SELECT egress_allow
FROM tenants
WHERE id = @id
FOR NO KEY UPDATE;

-- name: TenantAllow :exec
-- Replaces the egress allow list of a tenant.
UPDATE tenants
SET egress_allow = @egress_allow
WHERE id = @id;
