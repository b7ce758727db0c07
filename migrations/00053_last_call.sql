-- The minimum interval counts from the last run that was not skipped, whatever was skipped after it.

-- +goose Up
ALTER TABLE schedules
    ADD COLUMN last_call_at timestamptz; -- start of that run, cut to milliseconds
UPDATE schedules SET last_call_at = date_trunc('milliseconds', last_started_at) WHERE last_status <> 'skipped';

-- +goose Down
ALTER TABLE schedules DROP COLUMN last_call_at;
