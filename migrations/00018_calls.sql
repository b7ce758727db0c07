-- Calls: requests that are sent once, now or later, without an endpoint.

-- +goose Up

-- One row per call: its configuration. The row never changes. While the call has not ended, it has a
-- row in schedules under its ID, and its runs have that ID as their endpoint. Its result is its
-- newest run. Retention deletes it with the history.
CREATE TABLE calls (
    -- A UUIDv7, so the order of IDs is that of creation.
    id           uuid PRIMARY KEY,
    -- No foreign key, because thousands of inserts per second would lock the row of the tenant.
    tenant_id    uuid NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    -- The due time of its run.
    not_before   timestamptz NOT NULL CHECK (not_before >= '2020-01-01' AND not_before < '2200-01-01'),
    -- An attempt that has not started by then is recorded as skipped. Null: none.
    deadline_at  timestamptz,
    -- The configuration in the form of an endpoint, without a schedule.
    spec         jsonb NOT NULL,
    -- The URL that receives the result in another call. Null: none.
    callback_url text CHECK (length(callback_url) <= 2048),
    -- The Idempotency-Key of its requests. Null: the ID of its first attempt.
    sent_key     text CHECK (length(sent_key) BETWEEN 1 AND 255),
    -- The due time that the templates of its request use. Null: its own.
    due_for      timestamptz,
    CONSTRAINT calls_sound CHECK (NOT spec ? 'baselineCron' AND NOT spec ? 'baselineIntervalMs'
        AND endpoint_is_sound(spec || '{"baselineIntervalMs": 1000}'))
);
CREATE INDEX calls_tenant ON calls (tenant_id, id DESC);

-- Deduplication keys. A request with a known key returns the call of the first request.
CREATE TABLE call_keys (
    tenant_id  uuid NOT NULL,
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    call_id    uuid NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, key)
);
CREATE INDEX call_keys_expiry ON call_keys (expires_at);

-- A call never changes.
CREATE TRIGGER calls_immutable AFTER UPDATE ON calls
    FOR EACH ROW EXECUTE FUNCTION refuse_transition('a call');

-- +goose Down
DROP TABLE call_keys, calls;
