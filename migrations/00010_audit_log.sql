-- The audit log: an append-only record of changes. Only retention deletes entries.

-- +goose Up

-- audit_log_id returns a new ID of an entry: a UUIDv8 of the instant in microseconds and random
-- bits. The order of IDs is that of time, so a range of time is a range of IDs. It is one SQL
-- expression, because Postgres inlines that into the plan of the calling statement.
-- +goose StatementBegin
CREATE FUNCTION audit_log_id(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS
$$
SELECT encode(
    substring(int8send((extract(EPOCH FROM at) * 1000000)::bigint / 1000) FROM 3)
        || substring(int4send(32768 | ((extract(EPOCH FROM at) * 1000000)::bigint % 1000)::integer) FROM 3) -- 32768: the version, 8
        || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) FROM 9), 7, 1), 6, 0), -- the variant
    'hex')::uuid
$$;
-- +goose StatementEnd

-- Entries are inserted in the transaction of the change.
CREATE TABLE audit_log (
    id             uuid PRIMARY KEY,
    tenant_id      uuid NOT NULL REFERENCES tenants (id),
    at             timestamptz NOT NULL,
    -- The API key of the actor. Null: the system.
    key_id         uuid,
    actor          text NOT NULL,
    action         text NOT NULL CHECK (action ~ '^[a-z][a-z_]{0,49}$'),
    object_kind    text NOT NULL CHECK (object_kind ~ '^[a-z][a-z_]{0,49}$'),
    object_id      text NOT NULL CHECK (length(object_id) BETWEEN 1 AND 100),
    -- The changed members before and after the change, with secrets redacted. Null: the object did
    -- not exist.
    before         jsonb,
    after          jsonb,
    -- Empty: the change was not made by a request.
    request_id     text NOT NULL CHECK (length(request_id) <= 64),
    remote_address text NOT NULL CHECK (length(remote_address) <= 100)
);
CREATE INDEX audit_log_tenant ON audit_log (tenant_id, id DESC);
CREATE INDEX audit_log_object ON audit_log (tenant_id, object_id, id DESC);
CREATE INDEX audit_log_key ON audit_log (tenant_id, key_id, id DESC);
-- Partial indexes for lists by action and by kind. Frequent values are not in them, because a list
-- finds those at once.
CREATE INDEX audit_log_action ON audit_log (tenant_id, action, id DESC) WHERE action NOT IN ('register', 'edit', 'hint');
CREATE INDEX audit_log_kind ON audit_log (tenant_id, object_kind, id DESC) WHERE object_kind <> 'endpoint';

-- audit_log_keep refuses to change or truncate the log.
-- +goose StatementBegin
CREATE FUNCTION audit_log_keep() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_keep();

-- audit_log_keep_young refuses to delete an entry, unless it is older than the instant that
-- audit_log_drop_before has set for its transaction.
-- +goose StatementBegin
CREATE FUNCTION audit_log_keep_young() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    IF OLD.at < nullif(current_setting('rubato.audit_before', true), '')::timestamptz THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit log is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_log_keep_young BEFORE DELETE ON audit_log
    FOR EACH ROW EXECUTE FUNCTION audit_log_keep_young();

-- audit_log_drop_before deletes up to max_rows of the oldest entries before an instant, and returns
-- their number. It scans the primary key from its start and reads no entry that it keeps, because
-- IDs are in the order of time.
-- +goose StatementBegin
CREATE FUNCTION audit_log_drop_before(before timestamptz, max_rows integer) RETURNS integer
    LANGUAGE plpgsql AS
$$
DECLARE
    first_id uuid := encode(substring(int8send((extract(EPOCH FROM before) * 1000)::bigint) FROM 3) || '\x80000000000000000000', 'hex')::uuid;
    dropped  integer;
BEGIN
    PERFORM set_config('rubato.audit_before', before::text, true);
    DELETE FROM audit_log WHERE id IN (SELECT a.id FROM audit_log AS a WHERE a.id < first_id ORDER BY a.id LIMIT max_rows);
    GET DIAGNOSTICS dropped = ROW_COUNT;
    PERFORM set_config('rubato.audit_before', '', true);
    RETURN dropped;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION audit_log_drop_before(timestamptz, integer);
DROP TABLE audit_log;
DROP FUNCTION audit_log_keep_young();
DROP FUNCTION audit_log_keep();
DROP FUNCTION audit_log_id(timestamptz);
