-- name: AuditInsert :exec
-- Inserts an audit log entry in the transaction of the change. If that transaction wrote a new
-- version of an endpoint before, the version is stored too.
WITH entry AS (
    INSERT INTO audit_log (id, tenant_id, at, key_id, actor, action, object_kind, object_id, before, after, request_id, remote_address)
    SELECT audit_log_id(instant.at), @tenant_id, instant.at, sqlc.narg('key_id'), @actor, @action, @object_kind, @object_id,
           sqlc.narg('before'), sqlc.narg('after'), @request_id, @remote_address
    FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS at) AS instant
    RETURNING id, tenant_id, at, actor
), made AS MATERIALIZED (
    SELECT e.id, e.version, e.tenant_id, e.spec, entry.at, entry.actor, entry.id AS audit_id
    FROM entry
             JOIN endpoints e ON e.id = sqlc.narg('endpoint_id')::uuid AND (e.tenant_id = entry.tenant_id) IS TRUE
), replaced AS (
    UPDATE endpoint_versions v
    SET replaced_at = made.at
    FROM made
    WHERE v.endpoint_id = made.id AND v.version < made.version AND v.replaced_at IS NULL
)
INSERT INTO endpoint_versions (endpoint_id, version, tenant_id, spec, changed_at, changed_by, audit_id)
SELECT made.id, made.version, made.tenant_id, made.spec, made.at, made.actor, made.audit_id
FROM made
ON CONFLICT DO NOTHING;

-- name: AuditInsertMany :exec
-- Inserts the audit log entries of one change of many objects, in the transaction of the change. An
-- empty text in place of an object stands for null: the object did not exist. New versions of
-- endpoints, which were written before, are stored too.
WITH entry AS (
    INSERT INTO audit_log (id, tenant_id, at, key_id, actor, action, object_kind, object_id, before, after, request_id, remote_address)
    SELECT audit_log_id(instant.at), @tenant_id, instant.at, sqlc.narg('key_id'), @actor, @action, n.kind, n.id,
           nullif(n.before, '')::jsonb, nullif(n.after, '')::jsonb, @request_id, @remote_address
    FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS at) AS instant,
         (SELECT unnest(sqlc.arg('kinds')::text[]) AS kind, unnest(sqlc.arg('ids')::text[]) AS id,
                 unnest(sqlc.arg('befores')::text[]) AS before, unnest(sqlc.arg('afters')::text[]) AS after) AS n
    RETURNING id, tenant_id, at, actor, object_kind, object_id
), made AS MATERIALIZED (
    SELECT e.id, e.version, e.tenant_id, e.spec, entry.at, entry.actor, entry.id AS audit_id
    FROM entry
             JOIN endpoints e ON e.id = CASE entry.object_kind WHEN 'endpoint' THEN substring(entry.object_id FROM 4)::uuid END AND (e.tenant_id = entry.tenant_id) IS TRUE
), replaced AS (
    UPDATE endpoint_versions v
    SET replaced_at = made.at
    FROM made
    WHERE v.endpoint_id = made.id AND v.version < made.version AND v.replaced_at IS NULL
)
INSERT INTO endpoint_versions (endpoint_id, version, tenant_id, spec, changed_at, changed_by, audit_id)
SELECT made.id, made.version, made.tenant_id, made.spec, made.at, made.actor, made.audit_id
FROM made
ON CONFLICT DO NOTHING;

-- name: AuditList :many
-- Returns entries, newest first. A range of time is a range of IDs, so every filter uses an index
-- in the order of the list.
SELECT *
FROM audit_log
WHERE tenant_id = @tenant_id
  AND id >= sqlc.arg('from_id')::uuid
  AND id < sqlc.arg('before_id')::uuid
  AND (sqlc.narg('object_id')::text IS NULL OR object_id = sqlc.narg('object_id'))
  AND (sqlc.narg('object_kind')::text IS NULL OR object_kind = sqlc.narg('object_kind'))
  AND (sqlc.narg('key_id')::uuid IS NULL OR key_id = sqlc.narg('key_id'))
  AND (sqlc.narg('action')::text IS NULL OR action = sqlc.narg('action'))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows');

-- name: AuditDropBefore :one
-- Deletes the oldest entries before an instant, at most 1000 per call.
SELECT audit_log_drop_before(sqlc.arg('before')::timestamptz, 1000)::int AS dropped;

-- name: EndpointVersionList :many
-- Returns the stored versions of an endpoint below a version, newest first.
SELECT version, spec, changed_at, changed_by, audit_id
FROM endpoint_versions
WHERE endpoint_id = @endpoint_id
  AND (tenant_id = @tenant_id) IS TRUE
  AND version < sqlc.arg('before')::bigint
ORDER BY version DESC
LIMIT sqlc.arg('max_rows');

-- name: EndpointVersionDropBefore :execrows
-- Deletes versions that were replaced before an instant, at most 1000 per call.
DELETE
FROM endpoint_versions
WHERE (endpoint_id, version) IN (SELECT v.endpoint_id, v.version
                                 FROM endpoint_versions v
                                 WHERE v.replaced_at < sqlc.arg('before')::timestamptz
                                 LIMIT 1000);
