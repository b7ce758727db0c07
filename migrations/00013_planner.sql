-- What the planner works from. Runs know nothing of it: it reads what they leave anyway.

-- +goose Up

-- The queue and the lock of analyses: one row per endpoint that the planner knows. It is claimable from due_at on; a claim pushes that to
-- the end of its lock, so what a dead planner held is taken over by whoever asks next.
CREATE TABLE planner_state (
    endpoint_id   uuid PRIMARY KEY REFERENCES endpoints (id),
    due_at        timestamptz NOT NULL, -- infinity: parked
    trigger       text NOT NULL CHECK (trigger IN ('failures_changed', 'outcome_changed', 'never_analysed', 'time_reached')),
    claim_token   bigint NOT NULL CHECK (claim_token >= 0), -- the fence: only ever grows
    claimed_by    uuid,
    urged         text CHECK (urged IN ('failures_changed', 'outcome_changed')), -- came while it was claimed
    not_before    timestamptz NOT NULL, -- however urgent it is
    parked        text CHECK (parked IN ('paused', 'off')),
    seen_version  bigint NOT NULL,
    seen_failures smallint NOT NULL, -- the length of the failure streak in bits: it changes at 1, 2, 4, 8...
    seen_status   text,
    memory        jsonb NOT NULL, -- when it was analysed and changed
    last_session  uuid,
    CONSTRAINT planner_state_rest_check CHECK ((parked IS NULL) = (due_at < 'infinity'))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX planner_state_due ON planner_state (due_at) WHERE due_at < 'infinity';

-- How far the planners have looked, together: whoever holds the row looks on.
CREATE TABLE planner_watch (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    txid   bigint NOT NULL, -- run_news up to here has been read
    walked uuid NOT NULL    -- schedules up to here have been looked at in this round
);
INSERT INTO planner_watch (txid, walked) VALUES (pg_snapshot_xmin(pg_current_snapshot())::text::bigint, '00000000-0000-0000-0000-000000000000');

-- Analyses. A row is inserted once and never changes.
CREATE TABLE planner_sessions (
    id                uuid PRIMARY KEY, -- UUIDv7
    tenant_id         uuid NOT NULL,
    endpoint_id       uuid NOT NULL REFERENCES endpoints (id),
    version           bigint NOT NULL, -- of the configuration that was looked at
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
    cost_micros       bigint NOT NULL CHECK (cost_micros >= 0) -- millionths of a US dollar
);
CREATE INDEX planner_sessions_tenant ON planner_sessions (tenant_id, id DESC);
CREATE INDEX planner_sessions_endpoint ON planner_sessions (endpoint_id, id DESC);
CREATE INDEX planner_sessions_outcome ON planner_sessions (tenant_id, outcome, id DESC) WHERE outcome <> 'unchanged';

-- What waits for a person. One that is pending past its end has expired.
CREATE TABLE planner_suggestions (
    id          uuid PRIMARY KEY, -- UUIDv7
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    session_id  uuid NOT NULL,
    advisor     text NOT NULL,
    version     bigint NOT NULL, -- of the configuration that it is for
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

-- Tokens by day: of an endpoint, of a tenant (endpoint zero), and of the installation (both zero).
CREATE TABLE planner_spend (
    day         date NOT NULL,
    tenant_id   uuid NOT NULL,
    endpoint_id uuid NOT NULL,
    tokens      bigint NOT NULL CHECK (tokens >= 0), -- used, and reserved for calls under way
    PRIMARY KEY (day, tenant_id, endpoint_id)
);

-- +goose Down
DROP TABLE planner_spend, planner_suggestions, planner_sessions, planner_watch, planner_state;
