-- The audit log is kept for a time, not for good. No entry goes but by retention.

-- +goose Up
DROP TRIGGER audit_log_append_only ON audit_log;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_keep();

-- audit_log_keep_young refuses to delete what is not older than the instant that audit_log_drop_before has named for its transaction.
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

-- audit_log_drop_before removes up to max_rows entries from before an instant, the oldest first, and returns how many. Identities are in
-- the order of time, so it reads the key from its start and nothing beyond what it removes.
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
DROP TRIGGER audit_log_keep_young ON audit_log;
DROP FUNCTION audit_log_keep_young();
DROP TRIGGER audit_log_append_only ON audit_log;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_keep();
