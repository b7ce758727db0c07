-- Fewer indexes to keep on the way of every run: each costs as much as the row.

-- +goose Up

-- Live runs are found by their endpoint, which is the key. The few lookups by run ID read a table that is as small as what is in flight.
ALTER TABLE live_runs DROP CONSTRAINT live_runs_run_id_key;

-- A run ID is unique by itself, so the tenant may lead the key; then the key serves the list of a tenant's runs as well.
DROP INDEX runs_tenant;
ALTER TABLE runs DROP CONSTRAINT runs_pkey;
ALTER TABLE runs ADD PRIMARY KEY (tenant_id, id, scheduled_for);

-- +goose Down
ALTER TABLE runs DROP CONSTRAINT runs_pkey;
ALTER TABLE runs ADD PRIMARY KEY (id, scheduled_for);
CREATE INDEX runs_tenant ON runs (tenant_id, id DESC);
ALTER TABLE live_runs ADD CONSTRAINT live_runs_run_id_key UNIQUE (run_id);
