-- Named secrets and signing keys. Values are encrypted. The database never holds a plain value or
-- an encryption key.

-- +goose Up

CREATE TABLE secrets (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    name         text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    description  text NOT NULL CHECK (length(description) <= 1000),
    -- Counts the values that the secret has had.
    version      bigint NOT NULL CHECK (version > 0),
    -- ID of the encryption key.
    sealed_under text NOT NULL CHECK (sealed_under ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    -- Nonce, ciphertext and tag of a value of 1 to 65536 bytes.
    sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 29 AND 65564),
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    updated_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    last_used_at timestamptz,
    -- ID of the endpoint that used the secret last.
    last_used_by uuid,
    PRIMARY KEY (tenant_id, name)
);

-- References from endpoints in service to secrets, written in the transaction that writes the
-- endpoint. A reference may outlive its secret, because a secret can be deleted by force.
CREATE TABLE secret_references (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    name        text NOT NULL,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    PRIMARY KEY (endpoint_id, name)
);
CREATE INDEX secret_references_name ON secret_references (tenant_id, name, endpoint_id);

-- The keys that sign outgoing requests.
CREATE TABLE signing_keys (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    sealed_under text NOT NULL CHECK (sealed_under ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 29 AND 1024),
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    -- Null: the key does not expire.
    expires_at   timestamptz CHECK (expires_at < '2200-01-01')
);
CREATE INDEX signing_keys_tenant ON signing_keys (tenant_id, id DESC);

-- +goose Down
DROP TABLE signing_keys, secret_references, secrets;
