-- Notices: what somebody is told when something breaks, once. Episodes begin and end in the transactions that make them, and the notices
-- of them are an outbox, which workers deliver.

-- +goose Up

CREATE TABLE notice_rules (
    id          uuid PRIMARY KEY, -- UUIDv7
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    event       text NOT NULL CHECK (event IN ('failures', 'late', 'lost', 'paused', 'suggestion')),
    threshold   bigint NOT NULL CHECK (threshold BETWEEN 1 AND 604800000), -- failures in a row; milliseconds that a start is late; else 1
    endpoint_id uuid REFERENCES endpoints (id), -- null: all that have the labels
    labels      jsonb NOT NULL CHECK (jsonb_typeof(labels) = 'object'), -- that an endpoint must have; none: all of the tenant
    recovery    boolean NOT NULL, -- tell of the end of an episode too
    remind_ms   bigint NOT NULL CHECK (remind_ms = 0 OR remind_ms BETWEEN 60000 AND 2592000000), -- 0: never
    enabled     boolean NOT NULL,
    channel     jsonb NOT NULL CHECK (jsonb_typeof(channel) = 'object'), -- names secrets, holds none
    version     bigint NOT NULL CHECK (version > 0),
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text NOT NULL,
    walk_from   timestamptz NOT NULL, -- when the endpoints are looked through for what was so before the rule
    walked      uuid, -- looked through so far; null: all of them
    CONSTRAINT notice_rules_name UNIQUE (tenant_id, name)
);
CREATE INDEX notice_rules_walk ON notice_rules (walk_from) WHERE walked IS NOT NULL;

-- Counts the changes of rules, so that a program knows whether those that it remembers are current.
CREATE TABLE notice_book (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);
INSERT INTO notice_book (version) VALUES (0);

-- Something is wrong with an endpoint by a rule, from one instant to another. One is open at most.
CREATE TABLE notice_episodes (
    id          uuid PRIMARY KEY, -- in the order of time
    tenant_id   uuid NOT NULL,
    rule_id     uuid NOT NULL, -- the rule may be gone
    rule        text NOT NULL, -- its name
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    event       text NOT NULL,
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz,
    detail      jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object'),
    remind_at   timestamptz NOT NULL, -- infinity: never
    reminders   integer NOT NULL CHECK (reminders >= 0) -- so many were written
);
CREATE UNIQUE INDEX notice_episodes_open ON notice_episodes (endpoint_id, rule_id) WHERE closed_at IS NULL;
CREATE INDEX notice_episodes_remind ON notice_episodes (remind_at) WHERE closed_at IS NULL AND remind_at < 'infinity';
CREATE INDEX notice_episodes_closed ON notice_episodes (closed_at) WHERE closed_at IS NOT NULL;

-- The outbox. A claim pushes due_at to the end of its lock, so what a dead worker held is sent by the next one, under the same id.
CREATE TABLE notices (
    id           uuid PRIMARY KEY, -- in the order of time; what receivers know a notice by
    tenant_id    uuid NOT NULL,
    episode_id   uuid NOT NULL REFERENCES notice_episodes (id) ON DELETE CASCADE,
    kind         text NOT NULL CHECK (kind IN ('opened', 'reminder', 'recovered')),
    number       integer NOT NULL CHECK (number >= 0), -- of the reminder
    created_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL, -- may be sent from then on
    state        text NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'muted')),
    attempts     integer NOT NULL CHECK (attempts >= 0),
    claim_token  bigint NOT NULL CHECK (claim_token >= 0), -- the fence: only ever grows
    held         boolean NOT NULL, -- by a maintenance window
    ended_at     timestamptz, -- when it was delivered, given up or muted
    status_code  integer, -- that the last attempt was answered with
    error        text NOT NULL, -- why the last attempt failed
    CONSTRAINT notices_once UNIQUE (episode_id, kind, number),
    CONSTRAINT notices_ended_check CHECK ((state = 'waiting') = (ended_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX notices_due ON notices (due_at) WHERE state = 'waiting';
CREATE INDEX notices_tenant ON notices (tenant_id, id DESC);
CREATE INDEX notices_state ON notices (tenant_id, state, id DESC) WHERE state IN ('waiting', 'dead');

-- Times at which nobody is told.
CREATE TABLE maintenance_windows (
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    endpoint_id uuid REFERENCES endpoints (id),
    labels      jsonb NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    starts_at   timestamptz NOT NULL CHECK (starts_at >= '2020-01-01'),
    ends_at     timestamptz NOT NULL CHECK (ends_at < '2200-01-01'),
    reason      text NOT NULL CHECK (length(reason) <= 500),
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    PRIMARY KEY (tenant_id, name),
    CONSTRAINT maintenance_windows_order_check CHECK (starts_at < ends_at)
);

-- +goose Down
DROP TABLE maintenance_windows, notices, notice_episodes, notice_book, notice_rules;
