-- Named secrets and signing keys, encrypted: the database never holds a value in the clear, nor a key that one is encrypted under.

-- +goose Up

-- Counts the changes of a tenant's secrets and signing keys, so that a worker knows whether what it remembers is current.
ALTER TABLE tenants ADD COLUMN secrets_version bigint NOT NULL DEFAULT 0;

CREATE TABLE secrets (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    name         text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    description  text NOT NULL CHECK (length(description) <= 1000),
    version      bigint NOT NULL CHECK (version > 0), -- counts the values
    sealed_under text NOT NULL CHECK (sealed_under ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'), -- ID of the key
    sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 29 AND 65564), -- nonce, ciphertext and tag of 1 to 65536 bytes
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    updated_at   timestamptz NOT NULL,
    updated_by   text NOT NULL,
    last_used_at timestamptz,
    last_used_by uuid, -- the endpoint
    PRIMARY KEY (tenant_id, name)
);

-- Which endpoints in service refer to which secrets, written with the endpoint. A secret may be deleted by force while there are such.
CREATE TABLE secret_references (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    name        text NOT NULL,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    PRIMARY KEY (endpoint_id, name)
);
CREATE INDEX secret_references_name ON secret_references (tenant_id, name, endpoint_id);

-- The keys that requests are signed with.
CREATE TABLE signing_keys (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    sealed_under text NOT NULL CHECK (sealed_under ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'),
    sealed       bytea NOT NULL CHECK (length(sealed) BETWEEN 29 AND 1024),
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    expires_at   timestamptz CHECK (expires_at < '2200-01-01') -- null: never
);
CREATE INDEX signing_keys_tenant ON signing_keys (tenant_id, id DESC);

-- +goose Down
DROP TABLE signing_keys, secret_references, secrets;
ALTER TABLE tenants DROP COLUMN secrets_version;
