-- A run that infrastructure lost is tried again beside the attempts of its retry policy. The count is part of the run's ID.

-- +goose Up
ALTER TABLE schedules
    ADD COLUMN infra_attempt      smallint NOT NULL DEFAULT 0 CHECK (infra_attempt BETWEEN 0 AND 10), -- lost runs of the due time so far
    ADD COLUMN last_infra_attempt smallint NOT NULL DEFAULT 0 CHECK (last_infra_attempt BETWEEN 0 AND 10);
ALTER TABLE runs
    ADD COLUMN infra_attempt smallint NOT NULL DEFAULT 0;
CREATE OR REPLACE VIEW live_runs AS
SELECT endpoint_id, run_id, tenant_id, slot, attempt, source, claim_token, claimed_by AS worker_id, claimed_at, started_at, deadline_at,
       due_at AS locked_until, cancel_requested_at, cancel_requested_by, cancel_reason, infra_attempt
FROM schedules
WHERE claimed_by IS NOT NULL
  AND run_id IS NOT NULL;

-- +goose Down
DROP VIEW live_runs;
CREATE VIEW live_runs AS
SELECT endpoint_id, run_id, tenant_id, slot, attempt, source, claim_token, claimed_by AS worker_id, claimed_at, started_at, deadline_at,
       due_at AS locked_until, cancel_requested_at, cancel_requested_by, cancel_reason
FROM schedules
WHERE claimed_by IS NOT NULL
  AND run_id IS NOT NULL;
ALTER TABLE runs DROP COLUMN infra_attempt;
-- A program of before takes an infrastructure attempt for the first run of its due time, whose ID is in the history.
UPDATE schedules SET attempt = least(attempt + infra_attempt, 10) WHERE infra_attempt > 0 AND run_id IS NULL;
ALTER TABLE schedules DROP COLUMN infra_attempt, DROP COLUMN last_infra_attempt;
