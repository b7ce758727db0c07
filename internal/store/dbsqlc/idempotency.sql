-- name: IdempotencyReserve :one
-- Reserves a key for an attempt: a new key, an expired one, or one with an attempt that neither
-- committed nor is in flight. It returns the row in force, which is this attempt's if the token
-- matches.
WITH taken AS (
    INSERT INTO idempotency_keys AS i (tenant_id, route, key_hash, fingerprint, token, locked_until, expires_at)
    VALUES (@tenant_id, @route, @key_hash, @fingerprint, @token,
            now() + sqlc.arg('lock')::interval, now() + sqlc.arg('keep')::interval)
    ON CONFLICT (tenant_id, route, key_hash) DO UPDATE
        SET fingerprint  = excluded.fingerprint,
            token        = excluded.token,
            locked_until = excluded.locked_until,
            expires_at   = excluded.expires_at,
            executed     = false,
            status       = NULL,
            headers      = NULL,
            body         = NULL,
            sealed       = false
        WHERE i.expires_at <= now()
           OR (NOT i.executed AND i.locked_until <= now() AND i.fingerprint = excluded.fingerprint)
    RETURNING i.fingerprint, i.token, i.executed, i.status, i.headers, i.body, i.sealed, false AS locked
)
SELECT fingerprint, token, executed, status, headers, body, sealed, locked
FROM taken
UNION ALL
SELECT fingerprint, token, executed, status, headers, body, sealed, locked_until > now() AS locked
FROM idempotency_keys
WHERE tenant_id = @tenant_id
  AND route = @route
  AND key_hash = @key_hash
  AND NOT EXISTS (SELECT FROM taken);

-- name: IdempotencyExecute :execrows
-- Marks a request as executed, in the transaction that executes it. The token fences out other
-- attempts.
UPDATE idempotency_keys
SET executed = true
WHERE tenant_id = @tenant_id
  AND route = @route
  AND key_hash = @key_hash
  AND token = @token;

-- name: IdempotencyComplete :execrows
-- Stores the response of an attempt.
UPDATE idempotency_keys
SET executed = true, status = sqlc.arg('status')::smallint, headers = @headers, body = @body, sealed = @sealed
WHERE tenant_id = @tenant_id
  AND route = @route
  AND key_hash = @key_hash
  AND token = @token;

-- name: IdempotencyRelease :exec
-- Deletes a reserved key under which nothing was executed.
DELETE FROM idempotency_keys
WHERE tenant_id = @tenant_id
  AND route = @route
  AND key_hash = @key_hash
  AND token = @token
  AND NOT executed;

-- name: IdempotencyUnlock :exec
-- Ends the lock of an attempt with an unknown outcome.
UPDATE idempotency_keys
SET locked_until = now()
WHERE tenant_id = @tenant_id
  AND route = @route
  AND key_hash = @key_hash
  AND token = @token;

-- name: IdempotencySweep :execrows
-- Deletes expired keys, at most max_rows.
DELETE FROM idempotency_keys
WHERE (tenant_id, route, key_hash) IN (SELECT i.tenant_id, i.route, i.key_hash
                                       FROM idempotency_keys AS i
                                       WHERE i.expires_at <= now()
                                       ORDER BY i.expires_at
                                       LIMIT sqlc.arg('max_rows')
                                       FOR UPDATE SKIP LOCKED);
