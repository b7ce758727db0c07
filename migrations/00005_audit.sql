-- +goose Up

-- What a key was before it was rotated. The secret is good until valid_until; its hash stays for good, so that a key which starts with
-- the environment cannot come back to life there.
CREATE TABLE retired_secrets (
    hash        bytea PRIMARY KEY CHECK (length(hash) = 32), -- SHA-256 of the whole secret
    key_id      uuid NOT NULL REFERENCES api_keys (id),
    valid_until timestamptz NOT NULL
);
CREATE INDEX retired_secrets_key ON retired_secrets (key_id);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id DESC);

-- The identity of an entry of the audit log: a UUIDv8 of its instant in microseconds and of chance, so that the order of identities is
-- that of time, and a range of time is a range of identities.
-- +goose StatementBegin
CREATE FUNCTION audit_log_id(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS
$$
SELECT encode(
    substring(int8send(micros / 1000) FROM 3)
        || substring(int4send(32768 | (micros % 1000)::integer) FROM 3) -- 32768: the version, 8
        || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) FROM 9), 7, 1), 6, 0), -- the variant
    'hex')::uuid
FROM (SELECT (extract(EPOCH FROM at) * 1000000)::bigint AS micros) AS instant
$$;
-- +goose StatementEnd

-- Who changed what. Rows are only ever added, in the transaction of the change that they tell of. before and after hold the members
-- that changed, secrets redacted; null means that the object was not there.
CREATE TABLE audit_log (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    at             timestamptz NOT NULL,
    key_id         uuid, -- of the actor; null: the system
    actor          text NOT NULL,
    action         text NOT NULL CHECK (action ~ '^[a-z][a-z_]{0,49}$'),
    object_kind    text NOT NULL CHECK (object_kind ~ '^[a-z][a-z_]{0,49}$'),
    object_id      text NOT NULL CHECK (length(object_id) BETWEEN 1 AND 100),
    before         jsonb,
    after          jsonb,
    request_id     text NOT NULL CHECK (length(request_id) <= 64), -- empty: no request
    remote_address text NOT NULL CHECK (length(remote_address) <= 100)
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id DESC);
CREATE INDEX audit_log_object ON audit_log (tenant_id, object_id, id DESC);

-- +goose StatementBegin
CREATE FUNCTION audit_log_keep() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_keep();

-- What was answered to requests that named an Idempotency-Key. A row is reserved before its request is carried out, marked in the
-- transaction that carries it out, and completed with the answer after that.
CREATE TABLE idempotency_keys (
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    route        text NOT NULL CHECK (length(route) <= 200),
    key_hash     bytea NOT NULL CHECK (length(key_hash) = 32), -- SHA-256 of the header
    fingerprint  bytea NOT NULL CHECK (length(fingerprint) = 32), -- SHA-256 of what was asked
    token        uuid NOT NULL, -- of the attempt that holds the row
    locked_until timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    executed     boolean NOT NULL DEFAULT false, -- a transaction of the request has committed
    status       smallint CHECK (status BETWEEN 200 AND 299), -- null: not answered yet
    headers      jsonb,
    body         bytea CHECK (length(body) <= 1048576),
    sealed       boolean NOT NULL DEFAULT false, -- the body is encrypted under the secret of the asker's key
    PRIMARY KEY (tenant_id, route, key_hash)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- +goose Down
DROP TABLE idempotency_keys, audit_log, retired_secrets;
DROP FUNCTION audit_log_keep();
DROP FUNCTION audit_log_id(timestamptz);
DROP INDEX api_keys_tenant;
