-- One-off runs: the queue of requested runs, and their idempotency keys.

-- +goose Up

-- One row per requested run. The items of an endpoint wait until its schedule is free, and run one
-- at a time.
CREATE TABLE one_off_items (
    endpoint_id   uuid NOT NULL,
    -- The due time of the run. The run ID derives from endpoint, slot and attempts.
    slot          timestamptz NOT NULL,
    tenant_id     uuid NOT NULL,
    -- The ID of the next attempt.
    run_id        uuid NOT NULL,
    -- When the next attempt may start. It is before the slot if the clock was set back.
    not_before    timestamptz NOT NULL,
    attempt       smallint NOT NULL CHECK (attempt >= 1),
    -- The number of runs that infrastructure lost.
    infra_attempt smallint NOT NULL DEFAULT 0 CHECK (infra_attempt >= 0),
    -- -1 low, 0 normal, 1 high, 2 critical.
    priority      smallint NOT NULL CHECK (priority BETWEEN -1 AND 2),
    -- An attempt that has not started by then is recorded as skipped. Null: none.
    deadline_at   timestamptz,
    -- The next attempt is sent although the circuit breaker of its host is open.
    force         boolean NOT NULL DEFAULT false,
    -- The parts of the request that replace those of the endpoint. Null: none.
    request       jsonb,
    requested_by  text NOT NULL,
    -- The item carries out a step of a chain, which gets to know its end.
    chained       boolean NOT NULL DEFAULT false,
    -- The item carries out the compensation of a step, so it has more attempts, and its request may
    -- be repeated.
    undo          boolean NOT NULL DEFAULT false,
    PRIMARY KEY (endpoint_id, slot),
    CHECK (slot >= '2020-01-01' AND slot < '2200-01-01' AND not_before >= '2020-01-01' AND not_before < '2200-01-01')
);
CREATE INDEX one_off_items_tenant ON one_off_items (tenant_id, run_id);

-- Idempotency keys of one-off runs. A request with a known key returns the run of the first
-- request.
CREATE TABLE one_off_keys (
    endpoint_id uuid NOT NULL,
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    slot        timestamptz NOT NULL,
    -- SHA-256 of the request. The same key with another request is refused.
    fingerprint bytea NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (endpoint_id, key)
);
CREATE INDEX one_off_keys_expiry ON one_off_keys (expires_at);

-- +goose Down
DROP TABLE one_off_keys, one_off_items;
