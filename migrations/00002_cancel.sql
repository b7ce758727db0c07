-- +goose Up

-- Somebody asked for the end of the run. The worker that holds it reads this, cancels the request and finishes the run; nobody else
-- ends a run because of it.
ALTER TABLE live_runs
    ADD COLUMN cancel_requested_at timestamptz,
    ADD COLUMN cancel_requested_by text,
    ADD COLUMN cancel_reason       text,
    ADD CONSTRAINT live_runs_cancel_check CHECK ((cancel_requested_at IS NULL) = (cancel_requested_by IS NULL)
        AND (cancel_requested_at IS NULL) = (cancel_reason IS NULL) AND length(cancel_reason) <= 500);
-- Nearly always empty, so that a worker can ask often. Heartbeats do not touch its columns.
CREATE INDEX live_runs_cancel ON live_runs (worker_id) WHERE cancel_requested_at IS NOT NULL;

-- What programs of the release before write stays allowed.
ALTER TABLE run_events
    DROP CONSTRAINT run_events_kind_check,
    ADD CONSTRAINT run_events_kind_check CHECK (kind IN ('late_result', 'settled', 'cancel_requested'));

-- +goose Down
DELETE FROM run_events WHERE kind = 'cancel_requested';
ALTER TABLE run_events
    DROP CONSTRAINT run_events_kind_check,
    ADD CONSTRAINT run_events_kind_check CHECK (kind IN ('late_result', 'settled'));
ALTER TABLE live_runs
    DROP COLUMN cancel_requested_at,
    DROP COLUMN cancel_requested_by,
    DROP COLUMN cancel_reason;
