-- Workers: one row per worker process, updated by its heartbeat.

-- +goose Up

CREATE TABLE workers (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    version      text NOT NULL,
    -- A drained worker is alive and holds neither claims nor runs.
    state        text NOT NULL CHECK (state IN ('active', 'draining', 'drained', 'inactive')),
    -- The current number of slots, and how many of them are in use.
    slots        integer NOT NULL CHECK (slots > 0),
    busy         integer NOT NULL CHECK (busy >= 0),
    -- The configured number of slots. A worker's fair share of waiting claims is proportional to
    -- it.
    max_slots    integer NOT NULL DEFAULT 0 CHECK (max_slots >= 0),
    -- The number of claims in the queue of the worker.
    queued       integer NOT NULL DEFAULT 0 CHECK (queued >= 0),
    -- The tags that the operator gave the worker, as name=value.
    tags         text[] NOT NULL DEFAULT '{}',
    -- The tags that the worker found by itself, such as capability=ipv6.
    capabilities text[] NOT NULL DEFAULT '{}',
    -- An exclusive worker runs only endpoints that require one of its tags.
    exclusive    boolean NOT NULL DEFAULT false,
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    -- When the claims of the worker were taken over. It is after heartbeat_at while the worker is
    -- silent.
    freed_at     timestamptz,
    -- An operator's order to drain. The worker reads it with each heartbeat and claims no endpoint
    -- until it is withdrawn.
    drain_requested_at timestamptz,
    drain_requested_by text,
    CONSTRAINT workers_drain_check CHECK ((drain_requested_at IS NULL) = (drain_requested_by IS NULL))
);

-- worker_state returns the state of a worker as users see it. A worker without a recent heartbeat
-- is silent, unless it has shut down. An order to drain, or its end, shows before the worker has
-- read it.
-- +goose StatementBegin
CREATE FUNCTION worker_state(w workers, now timestamptz, silent_ms bigint) RETURNS text
    LANGUAGE sql IMMUTABLE AS
$$
SELECT CASE
           WHEN w.state = 'inactive' THEN w.state
           WHEN w.heartbeat_at < now - silent_ms * interval '1 ms' THEN 'silent'
           WHEN w.state = 'active' AND w.drain_requested_at IS NOT NULL THEN 'draining'
           WHEN w.state = 'drained' AND w.drain_requested_at IS NULL THEN 'active'
           ELSE w.state END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION worker_state(workers, timestamptz, bigint);
DROP TABLE workers;
