-- The run history. Its tables are partitioned by day (UTC) of the due time, so that retention drops
-- whole partitions.

-- +goose Up

-- One row per finished run. A row is inserted once and never changes. Consecutive due times without
-- a run share one row, that of the last due time, with attempt 0.
CREATE TABLE runs (
    -- UUIDv8 of due time, endpoint and attempts, so the order of IDs is that of due times.
    id             uuid NOT NULL,
    scheduled_for  timestamptz NOT NULL,
    endpoint_id    uuid NOT NULL,
    tenant_id      uuid NOT NULL,
    attempt        smallint NOT NULL CHECK (attempt >= 0),
    infra_attempt  smallint NOT NULL DEFAULT 0,
    source         text NOT NULL,
    claim_token    bigint NOT NULL,
    worker_id      uuid NOT NULL,
    claimed_at     timestamptz NOT NULL,
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz NOT NULL,
    status         text NOT NULL CHECK (status IN ('succeeded', 'failed', 'timed_out', 'canceled', 'lost', 'skipped')),
    reason_code    text NOT NULL CHECK (reason_code <> ''),
    -- The HTTP status code. Null: no response arrived.
    status_code    smallint CHECK (status_code BETWEEN 100 AND 999),
    -- The phases of the HTTP exchange, in microseconds.
    dns_us         integer NOT NULL CHECK (dns_us >= 0),
    connect_us     integer NOT NULL CHECK (connect_us >= 0),
    tls_us         integer NOT NULL CHECK (tls_us >= 0),
    wait_us        integer NOT NULL CHECK (wait_us >= 0),
    transfer_us    integer NOT NULL CHECK (transfer_us >= 0),
    response_bytes bigint NOT NULL CHECK (response_bytes >= 0),
    -- A hash of the stored response body, so that a reader can compare responses without the
    -- bodies, also after retention dropped them. The worker computes it. Null: the response had no
    -- body.
    body_digest    bigint,
    truncated      boolean NOT NULL,
    error          text,
    -- The first due time of the row, if it stands for skipped due times.
    skipped_from   timestamptz,
    -- The number of skipped due times.
    skipped_count  bigint,
    -- The decision of the finish. Null: the endpoint was archived during the run.
    next_run_at    timestamptz,
    next_source    text,
    -- Null: the only step was the baseline.
    next_steps     jsonb,
    -- The version of the configuration that the decision used.
    version        bigint NOT NULL,
    -- The failure count after the run.
    failure_count  integer NOT NULL,
    -- The instant of the decision. Null: none was made.
    decided_at     timestamptz,
    -- The input of the decision that follows neither from this row nor from earlier decisions, as
    -- internal/store/history encodes it, so that the decision can be replayed. Null: there is none.
    basis          jsonb,
    CONSTRAINT runs_skipped_check CHECK ((attempt = 0) = (skipped_from IS NOT NULL)),
    CONSTRAINT runs_skipped_range_check CHECK (
        CASE WHEN skipped_from IS NULL THEN skipped_count IS NULL
             ELSE coalesce(skipped_count > 0 AND skipped_from <= scheduled_for AND status = 'skipped' AND next_run_at IS NULL, false) END
        )
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX runs_endpoint ON runs (endpoint_id, id DESC);
-- Partial indexes for lists by status. Succeeded runs are not in them: most runs succeed, so a list
-- finds those at once, and inserting them stays cheap.
CREATE INDEX runs_unsuccessful ON runs (tenant_id, status, id DESC) WHERE status <> 'succeeded';
CREATE INDEX runs_endpoint_unsuccessful ON runs (endpoint_id, status, id DESC) WHERE status <> 'succeeded';
-- A run ID is unique without the tenant. The tenant leads the key, so that lists of a tenant's runs use
-- it too. The key is created after the other indexes, because among indexes of equal cost Postgres
-- prefers the newest one: lookups by key must win a tie while a partition is empty.
ALTER TABLE runs ADD PRIMARY KEY (tenant_id, id, scheduled_for);

-- Stored response bodies, apart from the history because they are larger and have a shorter
-- retention.
CREATE TABLE run_bodies (
    run_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    content_type  text NOT NULL,
    -- The body, or its head if it was longer than the limit.
    body          bytea NOT NULL,
    -- The last bytes of a body that was longer than the limit. Null: not stored.
    tail          bytea,
    PRIMARY KEY (run_id, scheduled_for)
) PARTITION BY RANGE (scheduled_for);

-- Events of a run beyond its row: suspensions, late results, settlements, requests to cancel.
CREATE TABLE run_events (
    run_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    at            timestamptz NOT NULL DEFAULT clock_timestamp(),
    kind          text NOT NULL CHECK (kind IN ('late_result', 'settled', 'cancel_requested', 'suspended', 'chain_started', 'chain_refused')),
    detail        jsonb NOT NULL
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX run_events_run ON run_events (run_id);

-- What a one-off run does not take from the configuration of its endpoint. One row for all attempts
-- of the run, inserted with its item and kept as long as the history, so that the run can be
-- repeated. A run without a row used the configuration alone.
CREATE TABLE run_requests (
    endpoint_id   uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    tenant_id     uuid NOT NULL,
    -- The request as in one_off_items. Null: the configured one.
    request       jsonb,
    -- The run that it repeats. Null: none.
    rerun_of      uuid,
    PRIMARY KEY (endpoint_id, scheduled_for)
) PARTITION BY RANGE (scheduled_for);

-- A run never changes, and is deleted only with its partition. Postgres copies the row trigger to
-- new partitions.
CREATE TRIGGER runs_immutable AFTER UPDATE OR DELETE ON runs
    FOR EACH ROW EXECUTE FUNCTION refuse_transition('a run');
CREATE TRIGGER runs_kept BEFORE TRUNCATE ON runs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_transition('the runs');

-- run_lags adds two columns to runs. All statements that report lag read this view.
-- claimed: a worker claimed the run. A one-off run or call that was withdrawn or canceled while it
-- waited has no fence and no worker, and ended at the instant that stands for its claim and start.
-- lag: the start lag, from due time to start. It is null for runs that nothing claimed and for runs
-- that are late by design: retries, one-off runs, runs that waited for the minimum after the last
-- start, and runs of endpoints with jitter, catch-up or a queue. The planned instant of such a run
-- is not in its row. A run that waited keeps its due time, so the delays of all starts before it
-- would add up in its lag.
CREATE VIEW run_lags AS
SELECT r.id, r.tenant_id, r.endpoint_id, r.attempt, r.scheduled_for, r.started_at, r.finished_at, r.status, r.status_code,
       r.dns_us, r.connect_us, r.tls_us, r.wait_us, r.transfer_us,
       NOT (r.claim_token = 0 AND r.worker_id = '00000000-0000-0000-0000-000000000000' AND r.source IN ('manual', 'call')
           AND r.status IN ('skipped', 'canceled') AND r.claimed_at = r.finished_at) AS claimed,
       CASE WHEN r.attempt = 1 AND r.infra_attempt = 0 AND r.claim_token > 0 AND r.source NOT IN ('manual', 'clamped-min')
                AND (SELECT e.late_by_intent FROM endpoints e WHERE e.id = r.endpoint_id) IS NOT TRUE
            THEN r.started_at - r.scheduled_for END AS lag
FROM runs r;

-- history_create_day creates the missing partitions of a day in the four tables of the history. It
-- attaches a finished table, because that does not block inserts into other partitions. A partition
-- for a day before today gets its date of creation as its comment, because its records are late.
-- +goose StatementBegin
CREATE FUNCTION history_create_day(day date, today date DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql AS
$$
DECLARE
    parent text;
    child  text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('rubato.history'));
    FOREACH parent IN ARRAY ARRAY ['runs', 'run_bodies', 'run_events', 'run_requests']
        LOOP
            child := parent || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass(child) IS NOT NULL;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', child, parent);
            IF day < today THEN
                EXECUTE format('COMMENT ON TABLE %I IS %L', child, 'for late records since ' || to_char(today, 'YYYYMMDD'));
            END IF;
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child,
                           day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
        END LOOP;
END
$$;
-- +goose StatementEnd

-- history_drop_before drops the partitions of one table for days before the given day, and returns
-- their number. A partition that was created for late records is as old as its creation.
-- +goose StatementBegin
CREATE FUNCTION history_drop_before(parent text, day date) RETURNS integer
    LANGUAGE plpgsql AS
$$
DECLARE
    child   text;
    dropped integer := 0;
BEGIN
    IF parent NOT IN ('runs', 'run_bodies', 'run_events', 'run_requests') THEN
        RAISE EXCEPTION 'no table of history: %', parent USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('rubato.history'));
    FOR child IN
        SELECT c.relname
        FROM pg_inherits i
                 JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = parent::regclass
          AND greatest(right(c.relname, 8), right(obj_description(c.oid, 'pg_class'), 8)) < to_char(day, 'YYYYMMDD')
        LOOP
            EXECUTE format('DROP TABLE %I', child);
            dropped := dropped + 1;
        END LOOP;
    RETURN dropped;
END
$$;
-- +goose StatementEnd

-- Runs can be recorded at once. Later partitions are created by the sweeper.
SELECT history_create_day((now() AT TIME ZONE 'UTC')::date + n) FROM generate_series(-1, 3) AS n;

-- +goose Down
DROP FUNCTION history_drop_before(text, date);
DROP FUNCTION history_create_day(date, date);
DROP VIEW run_lags;
DROP TABLE run_requests, run_events, run_bodies, runs;
