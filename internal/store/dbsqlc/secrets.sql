-- name: SecretsChange :one
-- Raises the version of a tenant's secrets and signing keys. It comes first in a transaction that
-- changes them, because its row lock serialises such changes.
UPDATE tenants
SET secrets_version = secrets_version + 1
WHERE id = @tenant_id
RETURNING secrets_version;

-- name: SecretsVersions :many
-- Returns the versions of tenants' secrets for runs that start in the same transaction. It must
-- follow SecretsAdvisoryLockShared, so that it sees every change that has returned.
SELECT id, secrets_version
FROM tenants
WHERE id = ANY (sqlc.arg('tenant_ids')::uuid[]);

-- name: SecretCount :one
SELECT count(*) FROM secrets WHERE tenant_id = @tenant_id;

-- name: SecretGet :one
SELECT s.tenant_id, s.name, s.description, s.version, s.sealed_under, s.created_at, s.created_by, s.updated_at, s.updated_by,
       s.last_used_at, s.last_used_by,
       (SELECT count(*) FROM secret_references AS r WHERE r.tenant_id = s.tenant_id AND r.name = s.name) AS endpoints,
       (SELECT count(*)
        FROM notice_rules AS n
        WHERE n.tenant_id = s.tenant_id
          AND (n.channel ->> 'urlSecret' = s.name OR n.channel ->> 'tokenSecret' = s.name)) AS rules
FROM secrets AS s
WHERE s.tenant_id = @tenant_id
  AND s.name = @name;

-- name: SecretList :many
SELECT s.tenant_id, s.name, s.description, s.version, s.sealed_under, s.created_at, s.created_by, s.updated_at, s.updated_by,
       s.last_used_at, s.last_used_by,
       (SELECT count(*) FROM secret_references AS r WHERE r.tenant_id = s.tenant_id AND r.name = s.name) AS endpoints,
       (SELECT count(*)
        FROM notice_rules AS n
        WHERE n.tenant_id = s.tenant_id
          AND (n.channel ->> 'urlSecret' = s.name OR n.channel ->> 'tokenSecret' = s.name)) AS rules
FROM secrets AS s
WHERE s.tenant_id = @tenant_id
  AND s.name > @after
ORDER BY s.name
LIMIT sqlc.arg('max_rows');

-- name: SecretPut :exec
-- Inserts a secret, or stores its next value.
INSERT INTO secrets (tenant_id, name, description, version, sealed_under, sealed, created_at, created_by, updated_at, updated_by)
VALUES (@tenant_id, @name, coalesce(sqlc.narg('description')::text, ''), 1, @sealed_under, @sealed, @now, @author, @now, @author)
ON CONFLICT (tenant_id, name) DO UPDATE
    SET description  = coalesce(sqlc.narg('description')::text, secrets.description),
        version      = secrets.version + 1,
        sealed_under = excluded.sealed_under,
        sealed       = excluded.sealed,
        updated_at   = excluded.updated_at,
        updated_by   = excluded.updated_by;

-- name: SecretDelete :execrows
DELETE FROM secrets WHERE tenant_id = @tenant_id AND name = @name;

-- name: SecretLock :one
-- Locks a secret that is about to be deleted, so that no endpoint can add a reference to it.
SELECT name FROM secrets WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE;

-- name: SecretReferrers :many
-- Returns some of the endpoints that refer to a secret, ordered by name.
SELECT e.id, e.name
FROM secret_references AS r
         JOIN endpoints AS e ON e.id = r.endpoint_id
WHERE r.tenant_id = @tenant_id
  AND r.name = @name
ORDER BY e.name, e.id
LIMIT sqlc.arg('max_rows');

-- name: SecretsLockShared :many
-- Returns which of these secrets exist, and locks them against deletion until the references are
-- stored.
SELECT name
FROM secrets
WHERE tenant_id = @tenant_id
  AND name = ANY (sqlc.arg('names')::text[])
ORDER BY name
FOR KEY SHARE;

-- name: SecretsExisting :many
-- Returns which of these secrets exist.
SELECT name
FROM secrets
WHERE tenant_id = @tenant_id
  AND name = ANY (sqlc.arg('names')::text[]);

-- name: SecretReferencesClear :exec
DELETE FROM secret_references WHERE endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[]);

-- name: SecretReferencesInsert :exec
INSERT INTO secret_references (tenant_id, name, endpoint_id)
SELECT @tenant_id, unnest(sqlc.arg('names')::text[]), unnest(sqlc.arg('endpoint_ids')::uuid[]);

-- name: SecretRecordUse :exec
-- Records which endpoints used secrets last. Locked rows are skipped, because the next use records
-- it too.
WITH used AS (
    SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
           unnest(sqlc.arg('names')::text[]) AS name,
           unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id
), free AS (
    SELECT s.tenant_id, s.name, u.endpoint_id
    FROM used AS u
             JOIN secrets AS s ON s.tenant_id = u.tenant_id AND s.name = u.name
    FOR UPDATE OF s SKIP LOCKED
)
UPDATE secrets AS s
SET last_used_at = coalesce(sqlc.narg('now')::timestamptz, now()), last_used_by = f.endpoint_id
FROM free AS f
WHERE s.tenant_id = f.tenant_id
  AND s.name = f.name;

-- name: SecretsSealed :many
-- Returns every secret of a tenant, encrypted.
SELECT name, sealed_under, sealed FROM secrets WHERE tenant_id = @tenant_id;

-- name: SecretsVersion :one
SELECT secrets_version FROM tenants WHERE id = @tenant_id;

-- name: SecretsSample :many
-- Returns one secret per encryption key, so that a program can check that it has the key.
SELECT DISTINCT ON (sealed_under) tenant_id, name, sealed_under, sealed
FROM secrets
ORDER BY sealed_under, tenant_id, name;

-- name: SigningKeysSample :many
-- Returns one signing key per encryption key.
SELECT DISTINCT ON (sealed_under) id, tenant_id, sealed_under, sealed
FROM signing_keys
ORDER BY sealed_under, id;

-- name: SecretsStale :many
-- Returns and locks secrets that are not encrypted under the newest key, after a position in their
-- order.
SELECT tenant_id, name, sealed_under, sealed
FROM secrets
WHERE sealed_under <> @newest
  AND (tenant_id, name) > (@after_tenant::uuid, @after_name::text)
ORDER BY tenant_id, name
LIMIT sqlc.arg('max_rows')
FOR NO KEY UPDATE;

-- name: SecretReseal :execrows
UPDATE secrets
SET sealed_under = @sealed_under, sealed = @sealed
WHERE tenant_id = @tenant_id
  AND name = @name;

-- name: SigningKeysStale :many
SELECT id, tenant_id, sealed_under, sealed
FROM signing_keys
WHERE sealed_under <> @newest
  AND id > @after
ORDER BY id
LIMIT sqlc.arg('max_rows')
FOR NO KEY UPDATE;

-- name: SigningKeyReseal :execrows
UPDATE signing_keys
SET sealed_under = @sealed_under, sealed = @sealed
WHERE id = @id;

-- name: SigningKeyInsert :exec
INSERT INTO signing_keys (id, tenant_id, sealed_under, sealed, created_at, created_by, expires_at)
VALUES (@id, @tenant_id, @sealed_under, @sealed, @created_at, @created_by, @expires_at);

-- name: SigningKeyList :many
-- Returns the signing keys of a tenant that are valid at an instant, newest first.
SELECT id, tenant_id, sealed_under, sealed, created_at, created_by, expires_at
FROM signing_keys
WHERE tenant_id = @tenant_id
  AND (expires_at IS NULL OR expires_at > coalesce(sqlc.narg('now')::timestamptz, now()))
ORDER BY id DESC;

-- name: SigningKeyDeleteExpired :exec
-- Deletes the expired signing keys of a tenant, because they sign no request any more.
DELETE
FROM signing_keys
WHERE tenant_id = @tenant_id
  AND expires_at <= sqlc.arg('now')::timestamptz;

-- name: SigningKeyExpire :exec
-- Sets the expiry of the older signing keys of a tenant, unless they expire earlier.
UPDATE signing_keys
SET expires_at = least(expires_at, sqlc.arg('expires_at')::timestamptz)
WHERE tenant_id = @tenant_id
  AND id <> @id;

-- name: SigningKeyDelete :execrows
DELETE FROM signing_keys WHERE id = @id AND tenant_id = @tenant_id;
