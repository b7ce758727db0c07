-- Notices: alert rules, their episodes, and a transactional outbox. The transaction that opens or
-- closes an episode inserts its notice, and workers deliver it.

-- +goose Up

CREATE TABLE notice_rules (
    -- In the order of time.
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL REFERENCES tenants (id),
    name        text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    event       text NOT NULL CHECK (event IN ('failures', 'late', 'lost', 'paused', 'suggestion', 'host_open', 'dead_letter', 'unroutable')),
    -- Consecutive failures, or the start lag in milliseconds. 1 for other events.
    threshold   bigint NOT NULL CHECK (threshold BETWEEN 1 AND 604800000),
    -- Null: the rule applies to all endpoints with the labels.
    endpoint_id uuid REFERENCES endpoints (id),
    -- The labels that an endpoint must have. Empty: all endpoints of the tenant.
    labels      jsonb NOT NULL CHECK (jsonb_typeof(labels) = 'object'),
    -- True if the end of an episode is notified too.
    recovery    boolean NOT NULL,
    -- The interval of reminders. 0: none.
    remind_ms   bigint NOT NULL CHECK (remind_ms = 0 OR remind_ms BETWEEN 60000 AND 2592000000),
    enabled     boolean NOT NULL,
    -- The channel. It refers to secrets by name.
    channel     jsonb NOT NULL CHECK (jsonb_typeof(channel) = 'object'),
    version     bigint NOT NULL CHECK (version > 0),
    created_at  timestamptz NOT NULL,
    created_by  text NOT NULL,
    updated_at  timestamptz NOT NULL,
    updated_by  text NOT NULL,
    -- After a change of the rule, a scan of all endpoints finds conditions that were already true.
    -- It starts here.
    scan_from   timestamptz NOT NULL,
    -- The cursor of the scan. Null: the scan is complete.
    scan_cursor uuid,
    CONSTRAINT notice_rules_name UNIQUE (tenant_id, name)
);
CREATE INDEX notice_rules_scan ON notice_rules (scan_from) WHERE scan_cursor IS NOT NULL;

-- Counts the changes of all rules, in one row, so that a program can invalidate its cache of rules.
CREATE TABLE notice_rules_version (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    version bigint NOT NULL
);
INSERT INTO notice_rules_version (version) VALUES (0);

-- Episodes: the time during which the condition of a rule holds for an endpoint. At most one is
-- open per endpoint and rule.
CREATE TABLE notice_episodes (
    -- In the order of time.
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    -- No foreign key, because an episode outlives a deleted rule.
    rule_id     uuid NOT NULL,
    -- The name of the rule.
    rule        text NOT NULL,
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    event       text NOT NULL,
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz,
    detail      jsonb NOT NULL CHECK (jsonb_typeof(detail) = 'object'),
    -- The labels of the endpoint when the episode opened. Alertmanager identifies an alert by its
    -- labels, so they must not change while it is open.
    labels      jsonb CHECK (jsonb_typeof(labels) = 'object'),
    -- infinity: no reminder is due.
    remind_at   timestamptz NOT NULL,
    -- The number of reminders so far.
    reminders   integer NOT NULL CHECK (reminders >= 0)
);
CREATE UNIQUE INDEX notice_episodes_open ON notice_episodes (endpoint_id, rule_id) WHERE closed_at IS NULL;
CREATE INDEX notice_episodes_remind ON notice_episodes (remind_at) WHERE closed_at IS NULL AND remind_at < 'infinity';
CREATE INDEX notice_episodes_closed ON notice_episodes (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX notice_episodes_endpoint ON notice_episodes (tenant_id, endpoint_id);
CREATE INDEX notice_episodes_rule ON notice_episodes (tenant_id, rule);

-- The outbox. A claim moves due_at to the end of its lock, so another worker sends the notices of a
-- dead one, under the same ID. Delivery is at least once; receivers deduplicate by ID.
CREATE TABLE notices (
    -- In the order of time.
    id          uuid PRIMARY KEY,
    tenant_id   uuid NOT NULL,
    episode_id  uuid NOT NULL REFERENCES notice_episodes (id) ON DELETE CASCADE,
    -- withdrawn: the last notice of an episode that did not recover.
    kind        text NOT NULL CHECK (kind IN ('opened', 'reminder', 'recovered', 'withdrawn')),
    -- The number of the reminder. 0 for other kinds.
    number      integer NOT NULL CHECK (number >= 0),
    -- Why a notice of kind withdrawn was sent. A receiver closes its alert on it.
    cause       text,
    -- A copy of the rule's channel, if the rule was deleted or got another channel. Null: the
    -- channel of the rule.
    channel     jsonb CHECK (jsonb_typeof(channel) = 'object'),
    created_at  timestamptz NOT NULL,
    -- The instant from which the notice can be claimed, or the end of the lock of its claim.
    due_at      timestamptz NOT NULL,
    state       text NOT NULL CHECK (state IN ('waiting', 'delivered', 'dead', 'muted')),
    attempts    integer NOT NULL CHECK (attempts >= 0),
    -- The fencing token. It only grows.
    claim_token bigint NOT NULL CHECK (claim_token >= 0),
    -- True if a maintenance window holds the notice back.
    held        boolean NOT NULL,
    -- When the notice was delivered, given up or muted.
    ended_at    timestamptz,
    -- The HTTP status code of the last attempt.
    status_code integer,
    -- The error of the last attempt.
    error       text NOT NULL,
    CONSTRAINT notices_once UNIQUE (episode_id, kind, number),
    CONSTRAINT notices_cause_check CHECK (
        (kind = 'withdrawn') = (cause IS NOT NULL) AND cause IN ('rule_changed', 'rule_deleted', 'endpoint_archived')),
    CONSTRAINT notices_ended_check CHECK ((state = 'waiting') = (ended_at IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX notices_due ON notices (due_at) WHERE state = 'waiting';
CREATE INDEX notices_tenant ON notices (tenant_id, id DESC);
-- Lists by state. Delivered notices need no index, because most notices are delivered.
CREATE INDEX notices_state ON notices (tenant_id, state, id DESC) WHERE state IN ('waiting', 'dead');
CREATE INDEX notices_muted ON notices (tenant_id, id DESC) WHERE state = 'muted';

-- Maintenance windows: no notice of a matching endpoint is sent while one is open.
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
DROP TABLE maintenance_windows, notices, notice_episodes, notice_rules_version, notice_rules;
