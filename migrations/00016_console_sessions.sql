-- Who is signed in to the console.

-- +goose Up

-- A session stands for the secret that it was opened with, not for its key: it ends with that secret, by revocation, expiry or rotation.
-- Neither the session's own secret nor the key's can be read back.
CREATE TABLE console_sessions (
    hash       bytea PRIMARY KEY CHECK (length(hash) = 32),         -- SHA-256 of what the cookie holds
    key_hash   bytea NOT NULL CHECK (length(key_hash) = 32),        -- SHA-256 of the API key
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX console_sessions_expiry ON console_sessions (expires_at);

-- +goose Down
DROP TABLE console_sessions;
