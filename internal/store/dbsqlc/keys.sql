-- name: KeyFind :one
-- Returns the API key of a secret: its current secret, or a rotated one that is still valid. The
-- use is recorded at most once a minute, and a locked row is skipped. left_ms is how long the
-- secret stays valid, from 1 ms to an hour, which bounds how long a cache may keep the result.
WITH found AS (
    SELECT k.id, k.tenant_id, k.name, k.scopes,
           least(k.expires_at, now() + interval '1 hour',
                 CASE WHEN k.hash IS DISTINCT FROM sqlc.arg('hash')::bytea
                      THEN (SELECT max(o.valid_until) FROM retired_secrets AS o WHERE o.hash = sqlc.arg('hash')::bytea) END) AS good_until
    FROM api_keys AS k
    WHERE k.id = coalesce((SELECT id FROM api_keys WHERE hash = sqlc.arg('hash')::bytea),
                          (SELECT key_id FROM retired_secrets AS r WHERE r.hash = sqlc.arg('hash')::bytea AND valid_until > now()))
      AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > now())
), stamped AS (
    UPDATE api_keys AS u
    SET last_used_at = now()
    WHERE u.id IN (SELECT s.id
                   FROM api_keys AS s
                   WHERE s.id IN (SELECT id FROM found)
                     AND (s.last_used_at IS NULL OR s.last_used_at < now() - interval '1 minute')
                   FOR UPDATE SKIP LOCKED)
)
SELECT id, tenant_id, name, scopes, greatest(floor(extract(epoch FROM good_until - now()) * 1000), 1)::bigint AS left_ms
FROM found;

-- name: KeyEnsure :exec
-- Inserts a key if it does not exist. A revoked key stays revoked, and a rotated secret stays
-- invalid.
INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes)
SELECT @id, @tenant_id, @name, @prefix, @hash, sqlc.arg('scopes')::text[]
WHERE NOT EXISTS (SELECT FROM retired_secrets AS r WHERE r.hash = @hash)
ON CONFLICT (hash) DO NOTHING;

-- name: KeysLock :exec
-- Locks the keys of a tenant, so that changes of them are serialised.
SELECT FROM tenants WHERE id = @tenant_id FOR NO KEY UPDATE;

-- name: KeyInsert :exec
INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes, created_at, expires_at)
VALUES (@id, @tenant_id, @name, @prefix, @hash, @scopes, @created_at, @expires_at);

-- name: KeyGet :one
SELECT id, tenant_id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at
FROM api_keys
WHERE id = @id
  AND tenant_id = @tenant_id;

-- name: KeyList :many
SELECT id, tenant_id, name, prefix, scopes, created_at, expires_at, last_used_at, revoked_at
FROM api_keys
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
  AND (sqlc.arg('state')::text = ''
    OR sqlc.arg('state') = CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                                WHEN expires_at <= coalesce(sqlc.narg('now')::timestamptz, now()) THEN 'expired'
                                ELSE 'active' END)
ORDER BY id DESC
LIMIT sqlc.arg('max_rows');

-- name: KeyCount :one
-- Counts the active keys of a tenant. The number is stable while the caller holds the lock of
-- KeysLock.
SELECT count(*)
FROM api_keys
WHERE tenant_id = @tenant_id
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > sqlc.arg('now')::timestamptz);

-- name: KeyCountAdmins :one
-- Counts the active keys with the scope admin, except one key.
SELECT count(*)
FROM api_keys
WHERE tenant_id = @tenant_id
  AND id <> @id
  AND 'admin' = ANY (scopes)
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > sqlc.arg('now')::timestamptz);

-- name: KeyRevoke :execrows
UPDATE api_keys
SET revoked_at = sqlc.arg('now')::timestamptz
WHERE id = @id
  AND tenant_id = @tenant_id
  AND revoked_at IS NULL;

-- name: SecretRetire :execrows
-- Keeps the current secret of a key valid until an instant, and shortens older retired secrets to
-- it.
WITH older AS (
    UPDATE retired_secrets
    SET valid_until = least(valid_until, sqlc.arg('valid_until')::timestamptz)
    WHERE key_id = @key_id
)
INSERT INTO retired_secrets (hash, key_id, valid_until)
SELECT hash, id, sqlc.arg('valid_until')::timestamptz
FROM api_keys
WHERE id = @key_id;

-- name: KeyRotate :execrows
UPDATE api_keys
SET hash = @hash, prefix = @prefix
WHERE id = @id
  AND tenant_id = @tenant_id
  AND revoked_at IS NULL;
