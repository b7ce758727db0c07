-- Dead letters: one-off runs, and runs of endpoints with deadLetter, that were given up.

-- +goose Up

-- One row per run that was given up. The transaction that records the last attempt inserts it, so
-- that a run never ends without its dead letter.
CREATE TABLE dead_letters (
    -- The ID of the last attempt. IDs are in the order of due times.
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    -- No foreign key, because endpoints are never deleted and a finish must not lock them.
    endpoint_id    uuid NOT NULL,
    -- The run was that of a call, and endpoint_id is its ID.
    call           boolean NOT NULL DEFAULT false,
    scheduled_for  timestamptz NOT NULL,
    created_at     timestamptz NOT NULL,
    attempt        smallint NOT NULL CHECK (attempt >= 1),
    infra_attempt  smallint NOT NULL CHECK (infra_attempt >= 0),
    status         text NOT NULL CHECK (status IN ('failed', 'timed_out', 'lost', 'skipped')),
    reason_code    text NOT NULL CHECK (reason_code <> ''),
    -- Null: no response arrived.
    status_code    smallint CHECK (status_code BETWEEN 100 AND 999),
    error          text,
    -- The head of the response. Null: none.
    content_type   text,
    body           bytea CHECK (octet_length(body) <= 4096),
    -- The request as it was, with references to secrets: a JSON document, sealed like secrets.
    request        bytea NOT NULL,
    -- The key that sealed the request. Empty: the program had no key, so the request is readable.
    sealed_under   text NOT NULL,
    state          text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'replayed', 'discarded')),
    handled_at     timestamptz,
    handled_by     text,
    -- The reason of a discard.
    handled_reason text CHECK (length(handled_reason) <= 500),
    -- The due time of the one-off run or the call that replays it.
    replay_slot    timestamptz,
    -- The call that replays it. Null: a one-off run of its endpoint.
    replay_call    uuid,
    CONSTRAINT dead_letters_handled_check CHECK ((state = 'open') = (handled_at IS NULL) AND (state = 'open') = (handled_by IS NULL)
        AND (state = 'replayed') = (replay_slot IS NOT NULL) AND (replay_call IS NULL OR state = 'replayed'))
);
CREATE INDEX dead_letters_tenant ON dead_letters (tenant_id, id DESC);
CREATE INDEX dead_letters_state ON dead_letters (tenant_id, state, id DESC);
CREATE INDEX dead_letters_endpoint ON dead_letters (endpoint_id, id DESC);
CREATE INDEX dead_letters_open ON dead_letters (created_at) WHERE state = 'open';
CREATE INDEX dead_letters_created ON dead_letters (created_at);

-- A dead letter is handled once.
CREATE TRIGGER dead_letters_handled_once AFTER UPDATE ON dead_letters
    FOR EACH ROW WHEN (OLD.state <> 'open' AND NEW.state <> OLD.state)
    EXECUTE FUNCTION refuse_transition('a dead letter');

-- +goose Down
DROP TABLE dead_letters;
