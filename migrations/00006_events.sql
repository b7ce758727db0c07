-- +goose Up

-- For those who watch: news, not history, so a day of it is kept. txid gives it the order of commits: a reader that has seen every
-- transaction below some number never finds another one there.

-- Runs that finished: a row names up to 50 of one tenant that one transaction wrote, so that it stays within its page, and a run costs
-- its two names rather than an entry of an index of the history.
CREATE TABLE run_news (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid         bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    tenant_id    uuid NOT NULL,
    at           timestamptz NOT NULL,
    run_ids      uuid[] NOT NULL,
    endpoint_ids uuid[] NOT NULL, -- of the runs, in their order
    CHECK (cardinality(run_ids) > 0 AND cardinality(run_ids) = cardinality(endpoint_ids))
);
CREATE INDEX run_news_tenant ON run_news (tenant_id, txid, id);

-- What happened to endpoints and hints outside a run.
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

-- Lists by what few rows are: without these a page reads past all the others. The common values need none, and runs that succeed,
-- endpoints that are not paused and names cost the hot path nothing.
CREATE INDEX endpoints_archived ON endpoints (tenant_id, id DESC) WHERE archived_at IS NOT NULL;
CREATE INDEX endpoints_serving ON endpoints (tenant_id, id DESC) WHERE archived_at IS NULL;
CREATE INDEX endpoints_name ON endpoints (tenant_id, name text_pattern_ops, id DESC);
ALTER TABLE endpoints ALTER COLUMN name SET STATISTICS 1000; -- How many names begin with a prefix cannot be told from a hundred of them.
CREATE INDEX schedules_paused ON schedules (endpoint_id DESC) WHERE paused_until IS NOT NULL;
CREATE INDEX runs_unsuccessful ON runs (tenant_id, status, id DESC) WHERE status <> 'succeeded';
CREATE INDEX runs_endpoint_unsuccessful ON runs (endpoint_id, status, id DESC) WHERE status <> 'succeeded';

-- +goose Down
ALTER TABLE endpoints ALTER COLUMN name SET STATISTICS -1;
DROP INDEX runs_endpoint_unsuccessful, runs_unsuccessful, schedules_paused, endpoints_name, endpoints_serving, endpoints_archived;
DROP TABLE events, run_news;
