-- +goose Up

-- Up to here every due time has a run or is recorded as skipped. Null: up to the last slot.
ALTER TABLE schedules ADD COLUMN accounted_until timestamptz;

-- Due times that passed without a run, one after the other, are one row for the last of them. It has attempt 0, which no run has. Both
-- constraints hold for new rows at once; the rows of before have none of these values, so no row needs to be looked at.
ALTER TABLE runs
    ADD COLUMN skipped_from timestamptz, -- the first of them
    ADD COLUMN skipped_count bigint,
    ADD CONSTRAINT runs_skipped_check CHECK ((attempt = 0) = (skipped_from IS NOT NULL)) NOT VALID,
    ADD CONSTRAINT runs_skipped_range_check CHECK (
        CASE WHEN skipped_from IS NULL THEN skipped_count IS NULL
             ELSE coalesce(skipped_count > 0 AND skipped_from <= scheduled_for AND status = 'skipped' AND next_run_at IS NULL, false) END
        ) NOT VALID;

-- +goose Down
DELETE FROM runs WHERE attempt = 0; -- A program of before takes them for runs.
ALTER TABLE runs
    DROP CONSTRAINT runs_skipped_check, DROP CONSTRAINT runs_skipped_range_check,
    DROP COLUMN skipped_from, DROP COLUMN skipped_count;
ALTER TABLE schedules DROP COLUMN accounted_until;
