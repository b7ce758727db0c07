-- The run in flight lives in the row of its schedule. Start is one HOT update that the row itself fences; a finish or a settlement ends it.

-- +goose Up
DROP TABLE live_runs;
ALTER TABLE schedules
    ADD COLUMN run_id              uuid,
    ADD COLUMN started_at          timestamptz,
    ADD COLUMN deadline_at         timestamptz, -- of the execution
    ADD COLUMN cancel_requested_at timestamptz,
    ADD COLUMN cancel_requested_by text,
    ADD COLUMN cancel_reason       text,
    ADD COLUMN revision            bigint NOT NULL DEFAULT 0, -- raised by each change that leaves the token: a finish compares it
    ADD COLUMN hinted              boolean NOT NULL DEFAULT false, -- hints may be in force: a start reads them for its finish
    ADD COLUMN archived            boolean NOT NULL DEFAULT false, -- the endpoint was archived during the run, whose end removes the row
    ADD CONSTRAINT schedules_run_check CHECK ((run_id IS NULL) = (started_at IS NULL) AND (run_id IS NULL) = (deadline_at IS NULL)
        AND (run_id IS NULL OR claimed_by IS NOT NULL AND claimed_at IS NOT NULL)),
    ADD CONSTRAINT schedules_archived_check CHECK (run_id IS NOT NULL OR NOT archived),
    ADD CONSTRAINT schedules_cancel_check CHECK ((cancel_requested_at IS NULL) = (cancel_requested_by IS NULL)
        AND (cancel_requested_at IS NULL) = (cancel_reason IS NULL) AND length(cancel_reason) <= 500
        AND (cancel_requested_at IS NULL OR run_id IS NOT NULL));

-- Claims walk the first index. Sweeps, takeovers and lists of running runs walk the second, which holds a few thousand rows at most.
-- A start changes no column of either, nor of their predicates, because its update must be HOT.
DROP INDEX schedules_due;
CREATE INDEX schedules_waiting ON schedules (due_at) WHERE claimed_by IS NULL;
CREATE INDEX schedules_held ON schedules (due_at) WHERE claimed_by IS NOT NULL;
-- Nearly always empty, so that a worker can ask often.
CREATE INDEX schedules_cancel ON schedules (claimed_by) WHERE cancel_requested_at IS NOT NULL;
-- A run rewrites its row three times. Half a page of room keeps the start on the page of its claim.
ALTER TABLE schedules SET (fillfactor = 50);

-- The runs in flight. Reads and row locks only: a write names the table.
CREATE VIEW live_runs AS
SELECT endpoint_id, run_id, tenant_id, slot, attempt, source, claim_token, claimed_by AS worker_id, claimed_at, started_at, deadline_at,
       due_at AS locked_until, cancel_requested_at, cancel_requested_by, cancel_reason
FROM schedules
WHERE claimed_by IS NOT NULL
  AND run_id IS NOT NULL;

-- +goose Down
DROP VIEW live_runs;
DELETE FROM schedules WHERE archived;
UPDATE schedules
SET claimed_by = NULL, claimed_at = NULL, due_at = planned_at, claim_token = claim_token + 1, run_id = NULL, started_at = NULL, deadline_at = NULL,
    cancel_requested_at = NULL, cancel_requested_by = NULL, cancel_reason = NULL
WHERE run_id IS NOT NULL;
DROP INDEX schedules_cancel, schedules_held, schedules_waiting;
CREATE INDEX schedules_due ON schedules (due_at);
ALTER TABLE schedules
    SET (fillfactor = 70),
    DROP COLUMN run_id, DROP COLUMN started_at, DROP COLUMN deadline_at, DROP COLUMN cancel_requested_at, DROP COLUMN cancel_requested_by,
    DROP COLUMN cancel_reason, DROP COLUMN archived, DROP COLUMN revision, DROP COLUMN hinted;
CREATE TABLE live_runs (
    endpoint_id         uuid PRIMARY KEY,
    run_id              uuid NOT NULL,
    tenant_id           uuid NOT NULL,
    slot                timestamptz NOT NULL,
    attempt             smallint NOT NULL,
    source              text NOT NULL,
    claim_token         bigint NOT NULL,
    worker_id           uuid NOT NULL,
    claimed_at          timestamptz NOT NULL,
    started_at          timestamptz NOT NULL,
    deadline_at         timestamptz NOT NULL,
    locked_until        timestamptz NOT NULL,
    cancel_requested_at timestamptz,
    cancel_requested_by text,
    cancel_reason       text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX live_runs_cancel ON live_runs (worker_id) WHERE cancel_requested_at IS NOT NULL;
