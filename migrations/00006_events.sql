-- +goose Up

-- The order of commits, for those who watch: a reader that has seen every transaction below some number never finds another one there.
-- Rows from before the column have none, and are no news any more. The default serves programs that do not know the column.
ALTER TABLE runs ADD COLUMN txid bigint;
ALTER TABLE runs ALTER COLUMN txid SET DEFAULT (pg_current_xact_id()::text::bigint);
CREATE INDEX runs_news ON runs (tenant_id, txid, id) WHERE txid IS NOT NULL;

-- What happened to endpoints and hints outside a run. It is news, not history: a day of it is kept.
CREATE TABLE events (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txid        bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint),
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    at          timestamptz NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('hint.set', 'hint.cleared', 'endpoint.paused', 'endpoint.resumed', 'endpoint.changed')),
    detail      jsonb NOT NULL
);
CREATE INDEX events_news ON events (tenant_id, txid, id);

-- Lists by what few rows are: without these a page reads past all the others. The common values need none, and runs that succeed,
-- endpoints that are not paused and names cost the hot path nothing.
CREATE INDEX endpoints_archived ON endpoints (tenant_id, id DESC) WHERE archived_at IS NOT NULL;
CREATE INDEX endpoints_serving ON endpoints (tenant_id, id DESC) WHERE archived_at IS NULL;
CREATE INDEX endpoints_name ON endpoints (tenant_id, name text_pattern_ops, id DESC);
CREATE INDEX schedules_paused ON schedules (endpoint_id DESC) WHERE paused_until IS NOT NULL;
CREATE INDEX runs_unsuccessful ON runs (tenant_id, status, id DESC) WHERE status <> 'succeeded';
CREATE INDEX runs_endpoint_unsuccessful ON runs (endpoint_id, status, id DESC) WHERE status <> 'succeeded';

-- +goose Down
DROP INDEX runs_endpoint_unsuccessful, runs_unsuccessful, schedules_paused, endpoints_name, endpoints_serving, endpoints_archived;
DROP TABLE events;
DROP INDEX runs_news;
ALTER TABLE runs DROP COLUMN txid;
