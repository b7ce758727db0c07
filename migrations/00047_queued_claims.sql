-- The claims in the queue of each worker, and its configured slots, because workers share the claims that they keep by them.

-- +goose Up
ALTER TABLE workers
    ADD COLUMN queued integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    ADD COLUMN max_slots integer NOT NULL DEFAULT 0 CHECK (max_slots >= 0);

-- +goose Down
ALTER TABLE workers
    DROP COLUMN queued,
    DROP COLUMN max_slots;
