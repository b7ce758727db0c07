-- name: AuditInsert :exec
-- Notes a change, in the transaction that makes it.
INSERT INTO audit_log (id, tenant_id, at, key_id, actor, action, object_kind, object_id, before, after, request_id, remote_address)
SELECT audit_log_id(instant.at), @tenant_id, instant.at, sqlc.narg('key_id'), @actor, @action, @object_kind, @object_id,
       sqlc.narg('before'), sqlc.narg('after'), @request_id, @remote_address
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS at) AS instant;

-- name: AuditInsertMany :exec
-- Notes what one act changed of many objects, in the transaction that makes the changes. An empty text in place of an object means that
-- it was not there.
INSERT INTO audit_log (id, tenant_id, at, key_id, actor, action, object_kind, object_id, before, after, request_id, remote_address)
SELECT audit_log_id(instant.at), @tenant_id, instant.at, sqlc.narg('key_id'), @actor, @action, n.kind, n.id,
       nullif(n.before, '')::jsonb, nullif(n.after, '')::jsonb, @request_id, @remote_address
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS at) AS instant,
     (SELECT unnest(sqlc.arg('kinds')::text[]) AS kind, unnest(sqlc.arg('ids')::text[]) AS id,
             unnest(sqlc.arg('befores')::text[]) AS before, unnest(sqlc.arg('afters')::text[]) AS after) AS n;

-- name: AuditList :many
-- A range of time is a range of identities, so every filter follows an index that is in the order of the list.
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
-- Removes the oldest entries from before an instant, a bounded number of them at a time.
SELECT audit_log_drop_before(sqlc.arg('before')::timestamptz, 1000)::int AS dropped;
