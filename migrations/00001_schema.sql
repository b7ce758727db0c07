-- +goose Up

CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    created_at timestamptz NOT NULL DEFAULT now()
);

-- The tenant of everything that is registered before there are others.
INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000001', 'default');

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL REFERENCES tenants (id),
    name         text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    prefix       text NOT NULL,          -- shown, so that people can tell keys apart
    hash         bytea NOT NULL UNIQUE CHECK (length(hash) = 32), -- SHA-256 of the whole key
    scopes       text[] NOT NULL CHECK (scopes <@ ARRAY ['read', 'write', 'admin']),
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz
);

-- Configuration: read on every run through a cache, written rarely.
CREATE TABLE endpoints (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL REFERENCES tenants (id),
    version               bigint NOT NULL CHECK (version > 0),
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL,
    archived_at           timestamptz,
    key                   text CHECK (key ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    name                  text NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    description           text NOT NULL CHECK (length(description) <= 4000),
    labels                jsonb NOT NULL CHECK (jsonb_typeof(labels) = 'object' AND NOT jsonb_path_exists(labels, '$.* ? (@.type() != "string")')),
    url                   text NOT NULL CHECK (url ~ '^https?://' AND length(url) <= 2048),
    method                text NOT NULL CHECK (method IN ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')),
    headers               jsonb NOT NULL CHECK (jsonb_typeof(headers) = 'object' AND NOT jsonb_path_exists(headers, '$.* ? (@.type() != "string")')),
    body                  text NOT NULL CHECK (octet_length(body) <= 262144),
    baseline_cron         text NOT NULL CHECK (length(baseline_cron) <= 255), -- empty: the interval is the baseline
    baseline_interval_ms  bigint NOT NULL CHECK (baseline_interval_ms = 0 OR baseline_interval_ms BETWEEN 1000 AND 31622400000),
    timezone              text NOT NULL CHECK (timezone <> ''),
    dst_gap               text NOT NULL CHECK (dst_gap IN ('run', 'skip')),
    dst_overlap           text NOT NULL CHECK (dst_overlap IN ('once', 'both')),
    start_at              timestamptz CHECK (start_at >= '2020-01-01' AND start_at < '2200-01-01'),
    catch_up              text NOT NULL CHECK (catch_up IN ('once', 'skip', 'all')),
    min_interval_ms       bigint NOT NULL CHECK (min_interval_ms = 0 OR min_interval_ms BETWEEN 1000 AND 31622400000), -- 0: none
    max_interval_ms       bigint NOT NULL CHECK (max_interval_ms = 0 OR max_interval_ms BETWEEN 1000 AND 31622400000), -- 0: none
    jitter_ms             bigint NOT NULL CHECK (jitter_ms BETWEEN 0 AND 86400000),
    timeout_ms            bigint NOT NULL CHECK (timeout_ms BETWEEN 1 AND 1800000),
    max_execution_time_ms bigint NOT NULL CHECK (max_execution_time_ms BETWEEN 1000 AND 1800000),
    max_response_kb       integer NOT NULL CHECK (max_response_kb BETWEEN 0 AND 1024),
    follow_redirects      integer NOT NULL CHECK (follow_redirects BETWEEN 0 AND 10),
    success               text NOT NULL CHECK (length(success) BETWEEN 1 AND 255),
    retry_max_attempts    integer NOT NULL CHECK (retry_max_attempts BETWEEN 1 AND 10),
    retry_backoff_ms      bigint NOT NULL CHECK (retry_backoff_ms BETWEEN 1 AND 3600000),
    retry_max_backoff_ms  bigint NOT NULL CHECK (retry_max_backoff_ms BETWEEN 1 AND 86400000),
    idempotent            boolean NOT NULL,
    CONSTRAINT endpoints_baseline_check CHECK ((baseline_cron = '') <> (baseline_interval_ms = 0)),
    CONSTRAINT endpoints_clamps_check CHECK (min_interval_ms = 0 OR max_interval_ms = 0 OR min_interval_ms <= max_interval_ms),
    CONSTRAINT endpoints_timeout_check CHECK (timeout_ms <= max_execution_time_ms),
    CONSTRAINT endpoints_backoff_check CHECK (retry_backoff_ms <= retry_max_backoff_ms)
);
CREATE UNIQUE INDEX endpoints_key_unique ON endpoints (tenant_id, key) WHERE archived_at IS NULL;
CREATE INDEX endpoints_tenant ON endpoints (tenant_id, id DESC);
CREATE INDEX endpoints_labels ON endpoints USING gin (labels jsonb_path_ops);

-- The hot row: when an endpoint may next be claimed, and under which token. It is rewritten twice per run, so it is narrow and
-- apart from the configuration, and its pages keep room for the next version. An archived endpoint has none.
CREATE TABLE schedules (
    endpoint_id      uuid PRIMARY KEY REFERENCES endpoints (id),
    -- Claimable from this instant on. While claimed_by is set it is the end of the claim's lock, at which others may take over.
    due_at           timestamptz NOT NULL CHECK (due_at >= '2020-01-01' AND due_at < '2200-01-01'),
    planned_at       timestamptz NOT NULL CHECK (planned_at >= '2020-01-01' AND planned_at < '2200-01-01'), -- when to send it
    slot             timestamptz NOT NULL CHECK (slot >= '2020-01-01' AND slot < '2200-01-01'), -- the due time it stands for
    claim_token      bigint NOT NULL CHECK (claim_token >= 0), -- the fence: only ever grows
    claimed_by       uuid,
    claimed_at       timestamptz,
    version          bigint NOT NULL, -- of the endpoint: tells workers whether their cached configuration is current
    lock_ms          integer NOT NULL CHECK (lock_ms BETWEEN 1000 AND 1805000), -- execution limit and a margin: how long a lock needs to be
    attempt          smallint NOT NULL CHECK (attempt BETWEEN 1 AND 10),
    source           text NOT NULL CHECK (source IN ('paused', 'ai-oneshot', 'ai-interval', 'baseline-cron', 'baseline-interval',
                                                     'clamped-min', 'clamped-max', 'retry-after', 'manual')),
    anchor           timestamptz, -- the grid point that the schedule counts from; null: never ran
    failure_count    integer NOT NULL CHECK (failure_count >= 0),
    paused_until     timestamptz,
    manual_at        timestamptz, -- somebody asked for a run now, and it has not run yet
    retry_after      timestamptz, -- what the target last asked for
    last_slot        timestamptz,
    last_attempt     smallint,
    last_status      text,
    last_started_at  timestamptz,
    last_finished_at timestamptz,
    pause_reason     text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);
CREATE INDEX schedules_due ON schedules (due_at);

-- Executions in progress. The key is the endpoint: two live executions of one endpoint cannot exist.
CREATE TABLE live_runs (
    endpoint_id  uuid PRIMARY KEY,
    run_id       uuid NOT NULL UNIQUE,
    tenant_id    uuid NOT NULL,
    slot         timestamptz NOT NULL,
    attempt      smallint NOT NULL,
    source       text NOT NULL,
    claim_token  bigint NOT NULL,
    worker_id    uuid NOT NULL,
    claimed_at   timestamptz NOT NULL,
    started_at   timestamptz NOT NULL,
    deadline_at  timestamptz NOT NULL, -- of the execution
    locked_until timestamptz NOT NULL  -- of the lock: moved on by heartbeats
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The history. A row is inserted once, already terminal, and never changes; retention drops whole days.
CREATE TABLE runs (
    id             uuid NOT NULL, -- UUIDv8: due time, endpoint, attempt
    scheduled_for  timestamptz NOT NULL,
    endpoint_id    uuid NOT NULL,
    tenant_id      uuid NOT NULL,
    attempt        smallint NOT NULL CHECK (attempt >= 0),
    source         text NOT NULL,
    claim_token    bigint NOT NULL,
    worker_id      uuid NOT NULL,
    claimed_at     timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz NOT NULL,
    status         text NOT NULL CHECK (status IN ('succeeded', 'failed', 'timed_out', 'canceled', 'lost', 'skipped')),
    reason_code    text NOT NULL CHECK (reason_code <> ''),
    status_code    smallint CHECK (status_code BETWEEN 100 AND 999),
    dns_us         integer NOT NULL CHECK (dns_us >= 0), -- phases of the exchange, in microseconds
    connect_us     integer NOT NULL CHECK (connect_us >= 0),
    tls_us         integer NOT NULL CHECK (tls_us >= 0),
    wait_us        integer NOT NULL CHECK (wait_us >= 0),
    transfer_us    integer NOT NULL CHECK (transfer_us >= 0),
    response_bytes bigint NOT NULL CHECK (response_bytes >= 0),
    truncated      boolean NOT NULL,
    error          text,
    next_run_at    timestamptz, -- what the finish decided; null where the endpoint was archived meanwhile
    next_source    text,
    next_steps     jsonb,       -- null where the one step was the baseline
    version        bigint NOT NULL, -- of the configuration that the decision used
    failure_count  integer NOT NULL, -- after the run
    PRIMARY KEY (id, scheduled_for)
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX runs_endpoint ON runs (endpoint_id, id DESC);
CREATE INDEX runs_tenant ON runs (tenant_id, id DESC);

-- What targets answered: larger than the history and kept for less long.
CREATE TABLE run_bodies (
    run_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    content_type  text NOT NULL,
    body          bytea NOT NULL,
    PRIMARY KEY (run_id, scheduled_for)
) PARTITION BY RANGE (scheduled_for);

-- The story of a run beyond its row: answers that came too late, settlements.
CREATE TABLE run_events (
    run_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind          text NOT NULL CHECK (kind IN ('late_result', 'settled')),
    detail        jsonb NOT NULL
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX run_events_run ON run_events (run_id);

-- Proposals to the governor. At most one of each kind is in force for an endpoint; the others are history.
CREATE TABLE hints (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    kind        text NOT NULL CHECK (kind IN ('interval', 'one-shot')),
    interval_ms bigint CHECK (interval_ms BETWEEN 1000 AND 31622400000),
    run_at      timestamptz CHECK (run_at >= '2020-01-01' AND run_at < '2200-01-01'),
    expires_at  timestamptz NOT NULL CHECK (expires_at >= '2020-01-01' AND expires_at < '2200-01-01'),
    reason      text NOT NULL CHECK (length(reason) <= 500),
    author      text NOT NULL,
    created_at  timestamptz NOT NULL,
    ended_at    timestamptz, -- replaced, cleared or consumed; null: in force until it expires
    CONSTRAINT hints_shape_check CHECK ((kind = 'interval') = (interval_ms IS NOT NULL) AND (kind = 'one-shot') = (run_at IS NOT NULL))
);
CREATE UNIQUE INDEX hints_current ON hints (endpoint_id, kind) WHERE ended_at IS NULL;
CREATE INDEX hints_endpoint ON hints (endpoint_id, id DESC);

-- Decisions outside a finish. Together with those in runs they are the ledger that explains every due time.
CREATE TABLE decisions (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    decided_at  timestamptz NOT NULL,
    cause       text NOT NULL CHECK (cause <> ''),
    author      text NOT NULL,
    version     bigint NOT NULL,
    next_run_at timestamptz NOT NULL,
    next_source text NOT NULL,
    next_steps  jsonb NOT NULL,
    input       jsonb NOT NULL
);
CREATE INDEX decisions_endpoint ON decisions (endpoint_id, id DESC);

-- One row per worker process.
CREATE TABLE workers (
    id           uuid PRIMARY KEY,
    name         text NOT NULL,
    version      text NOT NULL,
    state        text NOT NULL CHECK (state IN ('active', 'draining', 'inactive')),
    slots        integer NOT NULL CHECK (slots > 0),
    busy         integer NOT NULL CHECK (busy >= 0),
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    freed_at     timestamptz -- when its claims were taken over; later than the heartbeat while it is silent
);

-- Makes sure that the three tables of history have the partition of a day (UTC). It attaches rather than creates in place, because
-- that lets inserts into other days go on.
-- +goose StatementBegin
CREATE FUNCTION history_create_day(day date) RETURNS void
    LANGUAGE plpgsql AS
$$
DECLARE
    parent text;
    child  text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rubato.history'));
    FOREACH parent IN ARRAY ARRAY ['runs', 'run_bodies', 'run_events']
        LOOP
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass(child) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child,
                           day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        END LOOP;
END
$$;
-- +goose StatementEnd

-- Drops the partitions of one table of history that hold only days before the given one, and returns how many.
-- +goose StatementBegin
CREATE FUNCTION history_drop_before(parent text, day date) RETURNS integer
    LANGUAGE plpgsql AS
$$
DECLARE
    child   text;
    dropped integer := 0;
BEGIN
    IF parent NOT IN ('runs', 'run_bodies', 'run_events') THEN
        RAISE EXCEPTION 'no table of history: %', parent USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('rubato.history'));
    FOR child IN
        SELECT c.relname
        FROM pg_inherits i
                 JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass
          AND right(c.relname, 8) < to_char(day, 'YYYYMMDD')
        LOOP
            EXECUTE format('DROP TABLE %I', child);
            dropped := dropped + 1;
        END LOOP;
    RETURN dropped;
END
$$;
-- +goose StatementEnd

SELECT history_create_day((now() AT TIME ZONE 'UTC')::date + n) FROM generate_series(-1, 3) AS n;

-- +goose Down
DROP TABLE workers, decisions, hints, run_events, run_bodies, runs, live_runs, schedules, endpoints, api_keys, tenants;
DROP FUNCTION history_create_day(date);
DROP FUNCTION history_drop_before(text, date);
