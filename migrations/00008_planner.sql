-- The planner: its queue of analyses, their results, and its token budget. Workers do not use these
-- tables; the planner reads the run history and the outbox of finished runs.

-- +goose Up

-- The queue and the lock of analyses, one row per known endpoint. A row can be claimed from due_at
-- on. A claim moves due_at to the end of its lock, so that another planner takes over the claims of
-- a dead one.
CREATE TABLE planner_state (
    endpoint_id     uuid PRIMARY KEY REFERENCES endpoints (id),
    -- infinity: the row is parked.
    due_at          timestamptz NOT NULL,
    trigger         text NOT NULL CHECK (trigger IN ('failures_changed', 'outcome_changed', 'group_changed', 'never_analysed', 'time_reached')),
    -- The fencing token. It only grows.
    claim_token     bigint NOT NULL CHECK (claim_token >= 0),
    claimed_by      uuid,
    -- A trigger that fired during the claim. The endpoint is due again after the claim.
    pending_trigger text CHECK (pending_trigger IN ('failures_changed', 'outcome_changed', 'group_changed')),
    -- The earliest next analysis, which holds for every trigger.
    not_before      timestamptz NOT NULL,
    -- Why no analysis is due: the endpoint is paused, or its planner is off.
    parked          text CHECK (parked IN ('paused', 'off')),
    seen_version    bigint NOT NULL,
    -- The bit length of the last seen failure count, which changes at 1, 2, 4, 8 and so on.
    seen_failures   smallint NOT NULL,
    seen_status     text,
    -- The planner's own times: last analysis and changes.
    memory          jsonb NOT NULL,
    last_session    uuid,
    CONSTRAINT planner_state_rest_check CHECK ((parked IS NULL) = (due_at < 'infinity'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX planner_state_due ON planner_state (due_at) WHERE due_at < 'infinity';

-- The cursor of the planners' common scan, in one row. The planner that locks the row continues the
-- scan.
CREATE TABLE planner_scan (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Rows of finished_runs below this transaction ID have been read.
    txid            bigint NOT NULL,
    -- Schedules up to this endpoint ID have been read in this round.
    endpoint_cursor uuid NOT NULL
);
INSERT INTO planner_scan (txid, endpoint_cursor) VALUES (pg_snapshot_xmin(pg_current_snapshot())::text::bigint, '00000000-0000-0000-0000-000000000000');

-- Sessions of the planner: one row per analysis. A row is inserted once and never changes.
CREATE TABLE planner_sessions (
    -- UUIDv7, so the order of IDs is that of time.
    id                uuid PRIMARY KEY,
    tenant_id         uuid NOT NULL,
    endpoint_id       uuid NOT NULL REFERENCES endpoints (id),
    -- The version of the analysed configuration.
    version           bigint NOT NULL,
    started_at        timestamptz NOT NULL,
    finished_at       timestamptz NOT NULL,
    advisor           text NOT NULL CHECK (advisor <> ''),
    trigger           text NOT NULL,
    authority         text NOT NULL CHECK (authority IN ('observe', 'suggest', 'act')),
    outcome           text NOT NULL CHECK (outcome IN ('acted', 'suggested', 'observed', 'unchanged', 'stale', 'failed', 'over_budget', 'unavailable')),
    reasoning         text NOT NULL CHECK (length(reasoning) <= 2000),
    confidence        double precision NOT NULL CHECK (confidence BETWEEN 0 AND 1),
    next_analysis_at  timestamptz NOT NULL,
    calls             jsonb NOT NULL CHECK (jsonb_typeof(calls) = 'array'),
    changes           jsonb NOT NULL CHECK (jsonb_typeof(changes) = 'array'),
    warnings          jsonb NOT NULL CHECK (jsonb_typeof(warnings) = 'array'),
    error             text NOT NULL,
    model             text NOT NULL,
    prompt_digest     text NOT NULL,
    prompt_tokens     bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens bigint NOT NULL CHECK (completion_tokens >= 0),
    -- Cost in millionths of a US dollar.
    cost_micros       bigint NOT NULL CHECK (cost_micros >= 0)
);
CREATE INDEX planner_sessions_tenant ON planner_sessions (tenant_id, id DESC);
CREATE INDEX planner_sessions_endpoint ON planner_sessions (endpoint_id, id DESC);
CREATE INDEX planner_sessions_outcome ON planner_sessions (tenant_id, outcome, id DESC) WHERE outcome <> 'unchanged';

-- Suggestions that a user approves or rejects. A pending suggestion past expires_at counts as
-- expired.
CREATE TABLE planner_suggestions (
    -- UUIDv7, so the order of IDs is that of time.
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    session_id  uuid NOT NULL,
    advisor     text NOT NULL,
    -- The version of the configuration that the suggestion applies to.
    version     bigint NOT NULL,
    plan        jsonb NOT NULL CHECK (jsonb_typeof(plan) = 'object'),
    reasoning   text NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    state       text NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'replaced')),
    decided_at  timestamptz,
    decided_by  text,
    CONSTRAINT planner_suggestions_decided_check CHECK ((state = 'pending') = (decided_at IS NULL))
);
CREATE INDEX planner_suggestions_tenant ON planner_suggestions (tenant_id, id DESC);
CREATE UNIQUE INDEX planner_suggestions_pending ON planner_suggestions (endpoint_id) WHERE state = 'pending';
CREATE INDEX planner_suggestions_state ON planner_suggestions (tenant_id, state, id DESC);
CREATE INDEX planner_suggestions_open ON planner_suggestions (tenant_id, expires_at) WHERE state = 'pending';

-- Holds: kinds of change that a user forbids the planner for a while, by clearing, undoing or
-- rejecting one. They are written under the lock of the schedule.
CREATE TABLE planner_holds (
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    kind        text NOT NULL CHECK (kind IN ('interval', 'one-shot', 'pause')),
    until       timestamptz NOT NULL,
    -- The name of the API key.
    held_by     text NOT NULL,
    PRIMARY KEY (endpoint_id, kind)
);

-- Tokens per day of an endpoint, of a tenant (endpoint_id is zero), and of the installation (both
-- IDs are zero).
CREATE TABLE planner_spend (
    day         date NOT NULL,
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    -- Used tokens, and tokens reserved for calls in flight.
    tokens      bigint NOT NULL CHECK (tokens >= 0),
    PRIMARY KEY (day, tenant_id, endpoint_id)
);

-- +goose Down
DROP TABLE planner_spend, planner_holds, planner_suggestions, planner_sessions, planner_scan, planner_state;
