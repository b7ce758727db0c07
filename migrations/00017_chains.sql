-- Chains: steps that depend on each other, their runs and their compensation.

-- +goose Up

CREATE TABLE chains (
    tenant_id  uuid NOT NULL REFERENCES tenants (id),
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    -- The definition as its user wrote it.
    definition jsonb NOT NULL,
    -- Counts the changes of the definition.
    version    bigint NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, name)
);

-- One row per run of a chain. It keeps the definition that it was started with, so that a change of
-- the chain concerns later runs only.
CREATE TABLE chain_runs (
    id                  uuid PRIMARY KEY,
    tenant_id           uuid NOT NULL REFERENCES tenants (id),
    chain               text NOT NULL,
    version             bigint NOT NULL,
    definition          jsonb NOT NULL,
    input               jsonb NOT NULL,
    -- A second start with the same key is the same run. Null: none.
    idempotency_key     text CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    status              text NOT NULL DEFAULT 'running'
        CHECK (status IN ('running', 'compensating', 'succeeded', 'failed', 'timed_out', 'canceled', 'compensated', 'compensation_failed')),
    -- Why it stopped before all steps ran. Empty: it did not.
    reason              text NOT NULL DEFAULT '',
    -- The outputs of a run that succeeded.
    output              jsonb,
    requested_by        text NOT NULL,
    created_at          timestamptz NOT NULL,
    -- The end of the time for its steps. Null: none.
    deadline_at         timestamptz,
    cancel_requested_at timestamptz,
    ended_at            timestamptz,
    -- When to look at the run again, also if no step ended: its start, its deadline, a cancel.
    advance_at          timestamptz NOT NULL,
    -- The advances in a row that failed. Until retry_at the run is put behind the others, also if a
    -- step ended. Null: the last advance succeeded.
    failures            integer NOT NULL DEFAULT 0,
    retry_at            timestamptz,
    UNIQUE (tenant_id, chain, idempotency_key),
    CHECK ((status IN ('running', 'compensating')) = (ended_at IS NULL))
);
CREATE INDEX chain_runs_chain ON chain_runs (tenant_id, chain, id DESC);
CREATE INDEX chain_runs_open ON chain_runs (advance_at) WHERE ended_at IS NULL;
-- The open runs of each tenant, which take turns.
CREATE INDEX chain_runs_turns ON chain_runs (tenant_id, advance_at) WHERE ended_at IS NULL;
CREATE INDEX chain_runs_ended ON chain_runs (ended_at) WHERE ended_at IS NOT NULL;

-- A run of a chain that ended never changes.
CREATE TRIGGER chain_runs_end_once AFTER UPDATE ON chain_runs
    FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL OR OLD.status = 'compensating' AND NEW.status NOT IN ('compensating', 'compensated', 'compensation_failed'))
    EXECUTE FUNCTION refuse_transition('a run of a chain');

CREATE SEQUENCE chain_step_order;

-- One row per step of a run, and one per element of its forEach.
CREATE TABLE chain_steps (
    run_id     uuid NOT NULL REFERENCES chain_runs (id) ON DELETE CASCADE,
    name       text NOT NULL,
    -- The element of forEach, from 0. -1: the step itself.
    element    integer NOT NULL CHECK (element >= -1),
    status     text NOT NULL DEFAULT 'waiting' CHECK (status IN ('waiting', 'active', 'succeeded', 'failed', 'canceled', 'skipped')),
    reason     text NOT NULL DEFAULT '',
    error      text NOT NULL DEFAULT '',
    output     jsonb,
    item       jsonb,
    started_at timestamptz,
    ended_at   timestamptz,
    -- The order in which steps ended, from chain_step_order. Compensation goes backwards.
    ended      bigint,
    -- The state of the compensation. Empty: there is none.
    undo       text NOT NULL DEFAULT '' CHECK (undo IN ('', 'recorded', 'active', 'done', 'failed')),
    undo_error text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, name, element),
    CHECK ((ended IS NULL) = (status IN ('waiting', 'active'))),
    CHECK (undo = '' OR status = 'succeeded')
);

-- A step that ended keeps its outcome, and its compensation goes forward only.
CREATE TRIGGER chain_steps_end_once AFTER UPDATE ON chain_steps
    FOR EACH ROW WHEN (OLD.ended IS NOT NULL AND (NEW.status, NEW.ended) IS DISTINCT FROM (OLD.status, OLD.ended)
        OR OLD.undo = 'recorded' AND NEW.undo NOT IN ('recorded', 'active', 'failed')
        OR OLD.undo = 'active' AND NEW.undo NOT IN ('active', 'done', 'failed')
        OR OLD.undo IN ('done', 'failed') AND NEW.undo <> OLD.undo)
    EXECUTE FUNCTION refuse_transition('a step of a chain');

-- The one-off runs of steps and compensations.
CREATE TABLE chain_items (
    endpoint_id uuid NOT NULL,
    slot        timestamptz NOT NULL,
    run_id      uuid NOT NULL REFERENCES chain_runs (id) ON DELETE CASCADE,
    name        text NOT NULL,
    element     integer NOT NULL,
    -- It carries out the compensation of the step.
    undo        boolean NOT NULL,
    -- Its end has been written to the step.
    settled     boolean NOT NULL DEFAULT false,
    -- The one-off item was deleted since the run was last advanced.
    woken       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (endpoint_id, slot)
);
CREATE INDEX chain_items_run ON chain_items (run_id, name, element);
CREATE INDEX chain_items_woken ON chain_items (run_id) WHERE woken;

-- chain_item_over wakes the run of a chain in the transaction that deletes a one-off item: the
-- finish or the settlement of its last attempt, or its withdrawal.
-- +goose StatementBegin
CREATE FUNCTION chain_item_over() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    UPDATE chain_items SET woken = true WHERE endpoint_id = OLD.endpoint_id AND slot = OLD.slot;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- notify_chains notifies the workers of something to advance or to start. Polling finds
-- what a lost notification was about.
-- +goose StatementBegin
CREATE FUNCTION notify_chains() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    PERFORM pg_notify('rubato_chains', '');
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER chain_items_notify AFTER UPDATE ON chain_items
    FOR EACH ROW WHEN (NEW.woken AND NOT OLD.woken)
    EXECUTE FUNCTION notify_chains();
CREATE TRIGGER chain_runs_notify_start AFTER INSERT ON chain_runs
    FOR EACH STATEMENT EXECUTE FUNCTION notify_chains();
CREATE TRIGGER chain_runs_notify_cancel AFTER UPDATE ON chain_runs
    FOR EACH ROW WHEN (OLD.cancel_requested_at IS NULL AND NEW.cancel_requested_at IS NOT NULL)
    EXECUTE FUNCTION notify_chains();
CREATE TRIGGER one_off_items_chained AFTER DELETE ON one_off_items
    FOR EACH ROW WHEN (OLD.chained)
    EXECUTE FUNCTION chain_item_over();

-- The chains that runs start by their outcomes. The finish of the run inserts the row, and the
-- advancer of any worker starts the chain and deletes it.
CREATE TABLE chain_starts (
    run_id        uuid NOT NULL,
    outcome       text NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'changed')),
    chain         text NOT NULL,
    tenant_id     uuid NOT NULL REFERENCES tenants (id),
    endpoint_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    -- The attempts in a row that failed. Until retry_at the start is put behind the others.
    failures      integer NOT NULL DEFAULT 0,
    retry_at      timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (run_id, outcome, chain)
);
CREATE INDEX chain_starts_turns ON chain_starts (tenant_id, retry_at, run_id);

CREATE TRIGGER chain_starts_notify AFTER INSERT ON chain_starts
    FOR EACH STATEMENT EXECUTE FUNCTION notify_chains();

-- chain_unwanted requests the end of a chain run if the run that started it ends first, because it
-- was canceled or timed out. A chain run that is over stays as it is.
-- +goose StatementBegin
CREATE FUNCTION chain_unwanted() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    UPDATE chain_runs
    SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()), advance_at = clock_timestamp()
    WHERE id = right(OLD.status_url, 36)::uuid AND ended_at IS NULL;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER suspensions_chain_unwanted AFTER DELETE ON suspensions
    FOR EACH ROW WHEN (OLD.status_url LIKE 'chain:%')
    EXECUTE FUNCTION chain_unwanted();

-- +goose Down
DROP TRIGGER suspensions_chain_unwanted ON suspensions;
DROP FUNCTION chain_unwanted();
DROP TRIGGER one_off_items_chained ON one_off_items;
DROP FUNCTION chain_item_over();
DROP TABLE chain_starts, chain_items, chain_steps;
DROP SEQUENCE chain_step_order;
DROP TABLE chain_runs, chains;
DROP FUNCTION notify_chains();
