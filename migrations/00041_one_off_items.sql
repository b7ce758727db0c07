-- One-off runs: each request for a run now is an item of its own, which waits for its turn at the schedule of its endpoint.

-- +goose Up
CREATE TABLE one_off_items (
    endpoint_id  uuid NOT NULL,
    slot         timestamptz NOT NULL, -- the due time that the run stands for; with endpoint and attempt it makes the run ID
    tenant_id    uuid NOT NULL,
    run_id       uuid NOT NULL, -- of the next attempt
    not_before   timestamptz NOT NULL, -- the slot, or when the next attempt may start, which is earlier where the clock was set back
    attempt      smallint NOT NULL CHECK (attempt >= 1),
    infra_attempt smallint NOT NULL DEFAULT 0 CHECK (infra_attempt >= 0), -- how many runs infrastructure lost
    priority     smallint NOT NULL CHECK (priority BETWEEN -1 AND 2), -- low, normal, high, critical
    deadline_at  timestamptz, -- an attempt that has not started by then is recorded as skipped
    request      jsonb,       -- what differs from the endpoint's request; null: nothing
    requested_by text NOT NULL,
    PRIMARY KEY (endpoint_id, slot),
    CHECK (slot >= '2020-01-01' AND slot < '2200-01-01' AND not_before >= '2020-01-01' AND not_before < '2200-01-01')
);

CREATE INDEX one_off_items_tenant ON one_off_items (tenant_id, run_id);

-- Which run an idempotency key of a one-off run stands for.
CREATE TABLE one_off_keys (
    endpoint_id uuid NOT NULL,
    key         text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    slot        timestamptz NOT NULL,
    fingerprint bytea NOT NULL, -- SHA-256 of what was asked for
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (endpoint_id, key)
);
CREATE INDEX one_off_keys_expiry ON one_off_keys (expires_at);

-- +goose Down
DROP TABLE one_off_keys, one_off_items;
