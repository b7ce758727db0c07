-- Schedules: the state of each endpoint in service, with its claim, its run in flight, and the
-- hints and decisions that determine its due time.

-- +goose Up

-- refuse_transition is the trigger function for illegal state transitions. internal/runs lists the
-- legal ones.
-- +goose StatementBegin
CREATE FUNCTION refuse_transition() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION '% of % is not a legal transition', lower(TG_OP), TG_ARGV[0]
        USING ERRCODE = 'integrity_constraint_violation', HINT = 'docs/state-machine.md lists the legal transitions';
END
$$;
-- +goose StatementEnd

-- require_changed fails an optimistic finish that changed fewer rows than it was to, so that its
-- transaction, a single pipeline, rolls back. A row was changed during its run. The worker then
-- finishes the runs again with locked rows.
-- +goose StatementBegin
CREATE FUNCTION require_changed(changed bigint, wanted bigint) RETURNS boolean
    LANGUAGE plpgsql AS
$$
BEGIN
    IF changed < wanted THEN
        RAISE EXCEPTION '% of % rows were changed during their runs', wanted - changed, wanted
            USING ERRCODE = 'serialization_failure', HINT = 'the worker finishes these runs again with locked rows';
    END IF;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- One row per endpoint in service and per call that has not ended. This is the hot row: claim, start
-- and finish rewrite it, so it is apart from the configuration. Half of each page is free
-- (fillfactor), so that a start is a HOT update on the page of its claim. Fixed-width columns come
-- first, because Postgres then reads them at constant offsets.
CREATE TABLE schedules (
    -- The endpoint or the call. No foreign key, because it can be either. Both are inserted in one
    -- transaction with this row, and deleted after it. schedules_only_row keeps it unique.
    endpoint_id         uuid NOT NULL,
    tenant_id           uuid,
    -- The endpoint of a detached run, which has a row of its own (overlap: allow). The last finish of
    -- the run deletes the row. Null: the row is that of an endpoint or a call.
    owner_id            uuid,

    -- The instant from which the row can be claimed. While claimed_by is set, it is the end of the
    -- lock: the claim may be taken over after it, and a lost run may be settled.
    due_at              timestamptz NOT NULL CHECK (due_at >= '2020-01-01' AND due_at < '2200-01-01'),
    -- When the request is to be sent. It is after the slot for retries and because of jitter.
    planned_at          timestamptz NOT NULL CHECK (planned_at >= '2020-01-01' AND planned_at < '2200-01-01'),
    -- The due time that the run stands for. The run ID derives from it.
    slot                timestamptz NOT NULL CHECK (slot >= '2020-01-01' AND slot < '2200-01-01'),

    -- The fencing token. It only grows; every claim, release and finish raises it.
    claim_token         bigint NOT NULL CHECK (claim_token >= 0),
    -- Raised by changes during a run, which leave the token as it is. The optimistic finish
    -- compares it.
    revision            bigint NOT NULL DEFAULT 0,
    -- The version of the endpoint. A worker compares it with the version of its cached
    -- configuration.
    version             bigint NOT NULL,
    -- The duration of a full lock: execution limit plus margin.
    lock_ms             integer NOT NULL CHECK (lock_ms BETWEEN 1000 AND 1805000),
    -- The number of the endpoint's tags in tag_sets. 0: no tags.
    tag_set_id          integer NOT NULL DEFAULT 0,
    attempt             smallint NOT NULL CHECK (attempt BETWEEN 1 AND 10),
    -- The number of runs of this slot that infrastructure lost.
    infra_attempt       smallint NOT NULL DEFAULT 0 CHECK (infra_attempt BETWEEN 0 AND 10),
    -- The priority of the next run: -1 low, 0 normal, 1 high, 2 critical.
    priority            smallint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -1 AND 2),
    failure_count       integer NOT NULL CHECK (failure_count >= 0),
    -- True if a hint may be in force. A start then reads the hints, because its finish needs them.
    hinted              boolean NOT NULL DEFAULT false,
    -- True if the endpoint was archived during the run in flight. The finish of that run deletes
    -- the row.
    archived            boolean NOT NULL DEFAULT false,
    -- True if the row is that of a call. Its last finish deletes it.
    call                boolean NOT NULL DEFAULT false,
    -- The governor's rule that set the due time.
    source              text NOT NULL CHECK (source IN ('paused', 'ai-oneshot', 'ai-interval', 'change-rate', 'baseline-cron', 'baseline-interval',
                                                        'clamped-min', 'clamped-max', 'retry-after', 'target', 'circuit-open', 'ended', 'manual', 'call')),

    -- The worker that holds the lock. The Max UUID: the run is suspended until its target calls back,
    -- due_at is the end of that wait, and no worker holds the row.
    claimed_by          uuid,
    claimed_at          timestamptz,

    -- The run in flight. Null: none.
    run_id              uuid,
    started_at          timestamptz,
    -- When the execution limit of the run is reached.
    deadline_at         timestamptz,
    -- A request to cancel the run. The worker that holds the lock cancels the HTTP request and
    -- finishes the run.
    cancel_requested_at timestamptz,
    cancel_requested_by text,
    cancel_reason       text,

    -- The grid point from which intervals are counted. Null: the endpoint never ran.
    anchor              timestamptz,
    -- Every due time up to this instant has a run or a record of a skip. Null: up to last_slot.
    accounted_until     timestamptz,
    paused_until        timestamptz,
    pause_reason        text,
    -- The slot of the next one-off run. Null: no one-off run waits.
    manual_at           timestamptz,
    -- The number of due times with a run since the endpoint has a maxRuns.
    runs_done           integer NOT NULL DEFAULT 0 CHECK (runs_done >= 0),
    -- The instant at which maxRuns was reached. Null: it was not.
    ended_at            timestamptz,
    -- The Retry-After of the last response, as an instant.
    retry_after         timestamptz,
    -- The Rubato-Next of the last response, as an instant.
    target_next         timestamptz,
    -- The end of the freshness of the last response by Cache-Control.
    fresh_until         timestamptz,

    -- The latest due time that was served.
    last_slot           timestamptz,
    -- The due time of the last run. It is before last_slot if a due time was served
    -- between two attempts of a one-off run.
    last_run_slot       timestamptz,
    last_attempt        smallint,
    last_infra_attempt  smallint NOT NULL DEFAULT 0 CHECK (last_infra_attempt BETWEEN 0 AND 10),
    last_status         text,
    last_started_at     timestamptz,
    last_finished_at    timestamptz,
    -- Start of the last run that was not skipped, truncated to milliseconds. The minimum interval
    -- counts from it.
    last_call_at        timestamptz,
    -- The rate filter of internal/tempo with the last answer's digest. Null: the tempo does not
    -- follow the rate of change.
    tempo               bytea CHECK (octet_length(tempo) <= 1024),

    CONSTRAINT schedules_run_check CHECK ((run_id IS NULL) = (started_at IS NULL) AND (run_id IS NULL) = (deadline_at IS NULL)
        AND (run_id IS NULL OR claimed_by IS NOT NULL AND claimed_at IS NOT NULL)
        AND (run_id IS NOT NULL OR claimed_by <> 'ffffffff-ffff-ffff-ffff-ffffffffffff')),
    CONSTRAINT schedules_owner_check CHECK (owner_id IS NULL OR owner_id <> endpoint_id AND NOT call AND paused_until IS NULL AND manual_at IS NULL),
    CONSTRAINT schedules_archived_check CHECK (run_id IS NOT NULL OR NOT archived),
    CONSTRAINT schedules_cancel_check CHECK ((cancel_requested_at IS NULL) = (cancel_requested_by IS NULL)
        AND (cancel_requested_at IS NULL) = (cancel_reason IS NULL) AND length(cancel_reason) <= 500
        AND (cancel_requested_at IS NULL OR run_id IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.1);

-- A start must be a HOT update. Therefore it changes no column and no predicate of the indexes below,
-- except if it extends the lock. Among indexes of equal cost Postgres prefers the newest one, so the
-- order of these statements matters: claims must win a tie.

-- Lookups by key. The index is not unique, because a unique one makes each update that is not HOT
-- visit every version of its row that an old snapshot keeps.
CREATE INDEX schedules_endpoint ON schedules (endpoint_id);
ALTER TABLE schedules REPLICA IDENTITY FULL; -- Otherwise a publication of this table would refuse its updates.
-- Lists of the waiting calls of a tenant, and their quota, scan this index.
CREATE INDEX schedules_calls ON schedules (tenant_id, endpoint_id DESC) WHERE call;
-- The detached runs of an endpoint.
CREATE INDEX schedules_owner ON schedules (owner_id) WHERE owner_id IS NOT NULL;
-- Lists of paused endpoints scan this index.
CREATE INDEX schedules_paused ON schedules (endpoint_id DESC) WHERE paused_until IS NOT NULL;
-- Endpoints with tags or a priority other than normal are in two indexes of their own, apart from
-- the ordinary ones. A claim scans the lanes that its worker serves, so that it does not visit rows
-- that only other workers may run. A deployment without tags pays one empty lookup per lane.
CREATE INDEX schedules_tenant_apart ON schedules (tenant_id, tag_set_id, priority, due_at) WHERE claimed_by IS NULL AND (tag_set_id <> 0 OR priority <> 0);
CREATE INDEX schedules_apart ON schedules (tag_set_id, priority, due_at) WHERE claimed_by IS NULL AND (tag_set_id <> 0 OR priority <> 0);
-- Fair-share claims scan this index, one tenant after the other.
CREATE INDEX schedules_tenant_due ON schedules (tenant_id, due_at) WHERE claimed_by IS NULL AND tag_set_id = 0 AND priority = 0;
-- Claims scan this index from its low end.
CREATE INDEX schedules_waiting ON schedules (due_at) WHERE claimed_by IS NULL AND tag_set_id = 0 AND priority = 0;
-- Sweeps, takeovers and lists of live runs scan this index. It holds a few thousand entries, and one
-- for each suspended run.
CREATE INDEX schedules_held ON schedules (due_at) WHERE claimed_by IS NOT NULL;
-- Workers poll this index for suspended runs past the end of their wait. It is apart from
-- schedules_held, because a poll would visit all locks that expired and were taken over since the
-- last vacuum.
CREATE INDEX schedules_suspended ON schedules (due_at) WHERE claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
-- Workers poll this index for cancellations. Polls are cheap because it is nearly always empty.
CREATE INDEX schedules_cancel ON schedules (claimed_by) WHERE cancel_requested_at IS NOT NULL;

-- The runs in flight. Statements read the view and lock rows through it; writes name the table.
CREATE VIEW live_runs AS
SELECT endpoint_id, run_id, tenant_id, slot, attempt, infra_attempt, source, claim_token, claimed_by AS worker_id, claimed_at, started_at,
       deadline_at, due_at AS locked_until, cancel_requested_at, cancel_requested_by, cancel_reason, owner_id
FROM schedules
WHERE claimed_by IS NOT NULL
  AND run_id IS NOT NULL;

-- What a suspended run keeps beside its row, from the answer 202 to its end.
CREATE TABLE suspensions (
    run_id      uuid PRIMARY KEY,
    endpoint_id uuid NOT NULL,
    -- The worker that sent the request.
    worker_id   uuid NOT NULL,
    -- The wait that a report of progress starts again.
    wait_ms     bigint NOT NULL CHECK (wait_ms BETWEEN 1000 AND 31622400000),
    -- Status code and phases of the answer.
    exchange    jsonb NOT NULL,
    -- The URL of the answer that tells the state of the run. Null: there is none.
    status_url  text CHECK (length(status_url) <= 2048),
    -- When it is asked next, or the end of the lease of the worker that asks it now.
    poll_at     timestamptz,
    polls       integer NOT NULL DEFAULT 0,
    CONSTRAINT suspensions_poll_check CHECK ((status_url IS NULL) = (poll_at IS NULL))
);
CREATE INDEX suspensions_poll ON suspensions (poll_at) WHERE poll_at IS NOT NULL;
-- Runs that wait for the end of the chain that they started.
CREATE INDEX suspensions_chain ON suspensions (status_url) WHERE status_url LIKE 'chain:%';

-- The triggers refuse illegal state transitions. Their conditions are false for every legal one, so
-- the function is not called then. They are AFTER triggers, because a BEFORE UPDATE trigger would
-- lock each row first.
CREATE TRIGGER schedules_legal_insert AFTER INSERT ON schedules
    FOR EACH ROW WHEN (CASE WHEN NEW.owner_id IS NULL THEN NEW.claimed_by IS NOT NULL OR NEW.run_id IS NOT NULL ELSE NEW.run_id IS NULL END)
    EXECUTE FUNCTION refuse_transition('a schedule');
CREATE TRIGGER schedules_legal_update AFTER UPDATE ON schedules
    FOR EACH ROW WHEN (
    NEW.claim_token < OLD.claim_token
        OR NEW.endpoint_id <> OLD.endpoint_id
        OR CASE
               WHEN OLD.run_id IS NULL AND NEW.run_id IS NULL THEN
                   NEW.claim_token = OLD.claim_token AND NEW.claimed_by IS DISTINCT FROM OLD.claimed_by
               WHEN OLD.run_id IS NULL THEN
                   OLD.claimed_by IS NULL OR NEW.claimed_by <> OLD.claimed_by OR NEW.claim_token <> OLD.claim_token OR NEW.archived
               WHEN NEW.run_id IS NULL THEN NEW.claim_token = OLD.claim_token OR OLD.archived
                   OR OLD.claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND NEW.claimed_by IS NOT NULL
               -- A worker suspends its run under the same token. An archived run cannot be suspended.
               WHEN NEW.claimed_by = 'ffffffff-ffff-ffff-ffff-ffffffffffff' AND OLD.claimed_by <> NEW.claimed_by THEN
                   NEW.run_id <> OLD.run_id OR NEW.claim_token <> OLD.claim_token OR OLD.archived OR NEW.archived
               ELSE NEW.run_id <> OLD.run_id OR NEW.claimed_by <> OLD.claimed_by OR OLD.archived AND NOT NEW.archived
        END)
    EXECUTE FUNCTION refuse_transition('a schedule');
CREATE TRIGGER schedules_legal_delete AFTER DELETE ON schedules
    FOR EACH ROW WHEN (OLD.run_id IS NOT NULL AND NOT OLD.archived AND NOT OLD.call AND OLD.owner_id IS NULL)
    EXECUTE FUNCTION refuse_transition('a schedule');

-- schedules_only_row refuses a second row of an endpoint or a call, also within one statement. Of two
-- transactions that insert the same one, the second waits for the key in endpoints or calls.
-- +goose StatementBegin
CREATE FUNCTION refuse_second_row() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    IF EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = NEW.endpoint_id) THEN
        RAISE EXCEPTION 'a second row in schedules for %', NEW.endpoint_id
            USING ERRCODE = 'unique_violation', HINT = 'an endpoint, a call and a detached run have one row each';
    END IF;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER schedules_only_row
    BEFORE INSERT ON schedules
    FOR EACH ROW EXECUTE FUNCTION refuse_second_row();

-- schedule_name_tenant fills in the tenant of a row that was inserted without it.
-- +goose StatementBegin
CREATE FUNCTION schedule_name_tenant() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    SELECT e.tenant_id INTO NEW.tenant_id FROM endpoints e WHERE e.id = NEW.endpoint_id;
    RETURN NEW;
END
$$;
-- +goose StatementEnd
CREATE TRIGGER schedules_name_tenant
    BEFORE INSERT ON schedules
    FOR EACH ROW WHEN (NEW.tenant_id IS NULL)
EXECUTE FUNCTION schedule_name_tenant();


-- Hints: proposals to the governor. At most one of each kind is in force for an endpoint; all
-- others are history.
CREATE TABLE hints (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id  uuid NOT NULL REFERENCES endpoints (id),
    kind         text NOT NULL CHECK (kind IN ('interval', 'one-shot')),
    interval_ms  bigint CHECK (interval_ms BETWEEN 1000 AND 31622400000),
    run_at       timestamptz CHECK (run_at >= '2020-01-01' AND run_at < '2200-01-01'),
    -- Start of the outage that an interval hint was made for. Null: the hint was not made for an
    -- outage.
    outage_since timestamptz,
    expires_at   timestamptz NOT NULL CHECK (expires_at >= '2020-01-01' AND expires_at < '2200-01-01'),
    reason       text NOT NULL CHECK (length(reason) <= 500),
    author       text NOT NULL,
    created_at   timestamptz NOT NULL,
    -- When the hint was replaced, cleared or consumed. Null: it is in force until it expires.
    ended_at     timestamptz,
    CONSTRAINT hints_shape_check CHECK ((kind = 'interval') = (interval_ms IS NOT NULL) AND (kind = 'one-shot') = (run_at IS NOT NULL)),
    CONSTRAINT hints_outage_check CHECK (outage_since IS NULL OR kind = 'interval')
);
CREATE UNIQUE INDEX hints_current ON hints (endpoint_id, kind) WHERE ended_at IS NULL;
CREATE INDEX hints_endpoint ON hints (endpoint_id, id DESC);

-- Decisions of the governor outside a finish. Together with the decisions stored in runs they are
-- the ledger that explains every due time.
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
    input       jsonb NOT NULL,
    -- The claim token of the schedule before the decision. It orders decisions and runs.
    claim_token bigint NOT NULL,
    -- The state of the schedule that the change left and the decision was made from, as
    -- internal/store/history encodes it, so that the decision can be replayed.
    basis       jsonb NOT NULL
);
CREATE INDEX decisions_endpoint ON decisions (endpoint_id, id DESC);

-- +goose Down
DROP TABLE decisions, hints;
DROP TABLE suspensions;
DROP VIEW live_runs;
DROP TABLE schedules;
DROP FUNCTION schedule_name_tenant();
DROP FUNCTION refuse_second_row();
DROP FUNCTION require_changed(bigint, bigint);
DROP FUNCTION refuse_transition();
