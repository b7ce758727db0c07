-- Sessions of the console.

-- +goose Up

-- A session belongs to the secret that opened it, not to the API key. It ends when that secret is
-- revoked, expires or is rotated. Only hashes are stored.
CREATE TABLE console_sessions (
    -- SHA-256 of the cookie.
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),
    -- SHA-256 of the API key.
    key_hash   bytea NOT NULL CHECK (length(key_hash) = 32),
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX console_sessions_expiry ON console_sessions (expires_at);

-- +goose Down
DROP TABLE console_sessions;
