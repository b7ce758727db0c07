-- Legal moves of a schedule and of a run, as internal/runs lists them. The conditions are false on each legal move, so that the function
-- is not called for it. The triggers come after the change, because one before it would lock each row first.

-- +goose Up
-- +goose StatementBegin
CREATE FUNCTION refuse_move() RETURNS trigger
    LANGUAGE plpgsql AS
$$
BEGIN
    RAISE EXCEPTION '% of % is not a legal move', lower(TG_OP), TG_ARGV[0]
        USING ERRCODE = 'integrity_constraint_violation', HINT = 'docs/state-machine.md lists the legal moves';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER schedules_legal_insert AFTER INSERT ON schedules
    FOR EACH ROW WHEN (NEW.claimed_by IS NOT NULL OR NEW.run_id IS NOT NULL)
    EXECUTE FUNCTION refuse_move('a schedule');
CREATE TRIGGER schedules_legal_update AFTER UPDATE ON schedules
    FOR EACH ROW WHEN (
    NEW.claim_token < OLD.claim_token
        OR CASE
               WHEN OLD.run_id IS NULL AND NEW.run_id IS NULL THEN
                   NEW.claim_token = OLD.claim_token AND NEW.claimed_by IS DISTINCT FROM OLD.claimed_by
               WHEN OLD.run_id IS NULL THEN
                   OLD.claimed_by IS NULL OR NEW.claimed_by <> OLD.claimed_by OR NEW.claim_token <> OLD.claim_token OR NEW.archived
               WHEN NEW.run_id IS NULL THEN NEW.claim_token = OLD.claim_token OR OLD.archived
               ELSE NEW.run_id <> OLD.run_id OR NEW.claimed_by <> OLD.claimed_by OR OLD.archived AND NOT NEW.archived
        END)
    EXECUTE FUNCTION refuse_move('a schedule');
CREATE TRIGGER schedules_legal_delete AFTER DELETE ON schedules
    FOR EACH ROW WHEN (OLD.run_id IS NOT NULL AND NOT OLD.archived)
    EXECUTE FUNCTION refuse_move('a schedule');

-- A run of the history never changes, and goes only with the partition of its day. Partitions that are attached later get the first
-- trigger too.
CREATE TRIGGER runs_immutable AFTER UPDATE OR DELETE ON runs
    FOR EACH ROW EXECUTE FUNCTION refuse_move('a run');
CREATE TRIGGER runs_kept BEFORE TRUNCATE ON runs
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_move('the runs');

-- +goose Down
DROP TRIGGER runs_kept ON runs;
DROP TRIGGER runs_immutable ON runs;
DROP TRIGGER schedules_legal_delete ON schedules;
DROP TRIGGER schedules_legal_update ON schedules;
DROP TRIGGER schedules_legal_insert ON schedules;
DROP FUNCTION refuse_move();
