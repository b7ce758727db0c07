-- The feed of events. Rows are kept for a day, because they serve live readers only. The column
-- txid orders rows by commit: once all transactions below a number have ended, no further row
-- appears below it.

-- +goose Up

-- Finished runs. A row holds up to 50 runs of one tenant and one transaction, so that it fits its
-- page. That is cheaper than one more index on the history.
CREATE TABLE finished_runs (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid         bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    tenant_id    uuid NOT NULL,
    at           timestamptz NOT NULL,
    run_ids      uuid[] NOT NULL,
    -- The endpoints of the runs, in the same order.
    endpoint_ids uuid[] NOT NULL,
    CHECK (cardinality(run_ids) > 0 AND cardinality(run_ids) = cardinality(endpoint_ids))
);
CREATE INDEX finished_runs_tenant ON finished_runs (tenant_id, txid, id);

-- Changes of endpoints and hints outside a run.
CREATE TABLE events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid        bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    at          timestamptz NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('hint.set', 'hint.cleared', 'endpoint.paused', 'endpoint.resumed', 'endpoint.changed')),
    detail      jsonb NOT NULL
);
CREATE INDEX events_tenant ON events (tenant_id, txid, id);

-- +goose Down
DROP TABLE events, finished_runs;
