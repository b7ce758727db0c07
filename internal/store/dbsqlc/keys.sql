-- name: KeyFind :one
SELECT id, tenant_id, name, scopes
FROM api_keys
WHERE hash = @hash
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > now());

-- name: KeyEnsure :exec
-- Makes sure that a key exists; a key that was revoked stays revoked.
INSERT INTO api_keys (id, tenant_id, name, prefix, hash, scopes)
VALUES (@id, @tenant_id, @name, @prefix, @hash, @scopes)
ON CONFLICT (hash) DO NOTHING;
