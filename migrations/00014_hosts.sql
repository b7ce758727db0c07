-- Hosts: the circuit breakers of target hosts.

-- +goose Up

-- One row per host and port with failures or settings of a user. A host without a row is closed and
-- has no failures. A row is written when its state changes, never for a success of a healthy host.
CREATE TABLE hosts (
    -- The tenant, or zeros if all tenants share the breakers (RUBATO_HOST_SCOPE).
    scope          uuid NOT NULL,
    -- Host and port, such as api.example.com:443. A port speaks either HTTP or HTTPS.
    host           text NOT NULL CHECK (length(host) BETWEEN 3 AND 300),
    state          text NOT NULL CHECK (state IN ('closed', 'open', 'half_open')),
    -- Failures in a row while closed.
    failures       integer NOT NULL CHECK (failures >= 0),
    -- Windows since the breaker was last closed.
    openings       integer NOT NULL CHECK (openings >= 0),
    -- Successful probes while half-open.
    successes      integer NOT NULL CHECK (successes >= 0),
    -- When the state was entered.
    since          timestamptz NOT NULL,
    -- The end of the latest window. Null: it never opened since it was closed.
    open_until     timestamptz,
    -- The probes in flight: an endpoint and the token of its claim. A probe whose row in schedules is
    -- not locked under this token any more is over.
    seat_endpoints uuid[] NOT NULL,
    seat_tokens    bigint[] NOT NULL,
    -- The user's number of failures in a row that open the breaker. Null: the default.
    threshold      integer CHECK (threshold BETWEEN 1 AND 1000),
    -- The user's length of the first window. Null: the default.
    window_ms      bigint CHECK (window_ms BETWEEN 1000 AND 600000),
    -- The user's most requests in flight and requests per second, of all workers together. Null: no limit.
    max_concurrency integer CHECK (max_concurrency BETWEEN 1 AND 100000),
    max_rate       double precision CHECK (max_rate BETWEEN 0.01 AND 100000),
    -- The instant before which the target asked for no request. Null: none.
    held_until     timestamptz,
    -- The adaptive limits of requests in flight and of requests per second, with the time of their last
    -- changes. Null: the host is not limited.
    adaptive       jsonb CHECK (jsonb_typeof(adaptive) = 'object'),
    -- The 95th percentile of the latency at the last sample. Samples are stored only for hosts with an
    -- overload or an adaptive limit. Null: none.
    latency_ms     bigint CHECK (latency_ms >= 0),
    updated_at     timestamptz NOT NULL,
    PRIMARY KEY (scope, host),
    CONSTRAINT hosts_open_check CHECK ((state = 'closed') = (open_until IS NULL)),
    CONSTRAINT hosts_seats_check CHECK (cardinality(seat_endpoints) = cardinality(seat_tokens) AND cardinality(seat_tokens) <= 100)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- Workers read the rows that changed since their last look.
CREATE INDEX hosts_updated ON hosts (updated_at);

-- internal/hosts lists the legal moves.
CREATE TRIGGER hosts_legal_insert AFTER INSERT ON hosts
    FOR EACH ROW WHEN (NEW.state <> 'closed')
    EXECUTE FUNCTION refuse_transition('a host');
CREATE TRIGGER hosts_legal_update AFTER UPDATE ON hosts
    FOR EACH ROW WHEN (OLD.state = 'closed' AND NEW.state = 'half_open')
    EXECUTE FUNCTION refuse_transition('a host');

-- +goose Down
DROP TABLE hosts;
