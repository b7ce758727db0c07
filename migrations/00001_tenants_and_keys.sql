-- Tenants, their API keys, and the answers kept for idempotent requests.

-- +goose Up

CREATE TABLE tenants (
    id              uuid PRIMARY KEY,
    name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- The tenant's own egress allow list of prefixes and hosts, beside the list of the
    -- installation. Only an operator's command writes it; the API does not.
    egress_allow    text[] NOT NULL DEFAULT '{}' CHECK (cardinality(egress_allow) <= 100),
    -- Counts the changes of the tenant's secrets and signing keys, so that a worker can invalidate
    -- its cache.
    secrets_version bigint NOT NULL DEFAULT 0
);

-- Every installation has this tenant. Requests belong to it if no other tenant exists.
INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000001', 'default');

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    -- The start of the key in clear text, so that users can recognise a key in a list.
    prefix       text NOT NULL,
    -- SHA-256 of the whole key. The key itself is not stored.
    hash         bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    scopes       text[] NOT NULL CHECK (scopes <@ ARRAY ['read', 'write', 'admin']),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id DESC);

-- Secrets that an API key had before a rotation. A secret is accepted until valid_until. Its hash
-- is kept for good, because a key from the environment must not become valid again at the next
-- start.
CREATE TABLE retired_secrets (
    -- SHA-256 of the whole secret.
    hash        bytea PRIMARY KEY CHECK (length(hash) = 32),
    key_id      uuid NOT NULL REFERENCES api_keys (id),
    valid_until timestamptz NOT NULL
);
CREATE INDEX retired_secrets_key ON retired_secrets (key_id);

-- Responses to requests with an Idempotency-Key. A row is reserved before the request is executed,
-- marked as executed in the transaction of the request, and completed with the response afterwards.
CREATE TABLE idempotency_keys (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    route        text NOT NULL CHECK (length(route) <= 200),
    -- SHA-256 of the header.
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32),
    -- SHA-256 of the request. The same key with another request is refused.
    fingerprint  bytea NOT NULL CHECK (length(fingerprint) = 32),
    -- The fencing token of the attempt that has reserved the row.
    token        uuid NOT NULL,
    locked_until timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- True once a transaction of the request has committed.
    executed     boolean NOT NULL DEFAULT false,
    -- The status of the response. Null until the response is stored.
    status       smallint CHECK (status BETWEEN 200 AND 299),
    headers      jsonb,
    body         bytea CHECK (length(body) <= 1048576),
    -- True if the body is encrypted under the secret of the caller's API key.
    sealed       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant_id, route, key_hash)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- +goose Down
DROP TABLE idempotency_keys, retired_secrets, api_keys, tenants;
