-- Workers: one row per worker process, updated by its heartbeat.

-- +goose Up

CREATE TABLE workers (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    version      text NOT NULL,
    state        text NOT NULL CHECK (state IN ('active', 'draining', 'inactive')),
    -- The current number of slots, and how many of them are in use.
    slots        integer NOT NULL CHECK (slots > 0),
    busy         integer NOT NULL CHECK (busy >= 0),
    -- The configured number of slots. A worker's fair share of waiting claims is proportional to
    -- it.
    max_slots    integer NOT NULL DEFAULT 0 CHECK (max_slots >= 0),
    -- The number of claims in the queue of the worker.
    queued       integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    -- When the claims of the worker were taken over. It is after heartbeat_at while the worker is
    -- silent.
    freed_at     timestamptz
);

-- +goose Down
DROP TABLE workers;
