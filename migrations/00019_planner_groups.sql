-- Who has a role in a group is analysed when another endpoint of the group begins or ceases to fail. Lists of suggestions read what they
-- return, whatever has piled up.

-- +goose Up
ALTER TABLE planner_state
    DROP CONSTRAINT planner_state_trigger_check,
    ADD CONSTRAINT planner_state_trigger_check
        CHECK (trigger IN ('failures_changed', 'outcome_changed', 'group_changed', 'never_analysed', 'time_reached')),
    DROP CONSTRAINT planner_state_urged_check,
    ADD CONSTRAINT planner_state_urged_check CHECK (urged IN ('failures_changed', 'outcome_changed', 'group_changed'));
CREATE INDEX planner_suggestions_state ON planner_suggestions (tenant_id, state, id DESC);
CREATE INDEX planner_suggestions_open ON planner_suggestions (tenant_id, expires_at) WHERE state = 'pending';

-- +goose Down
DROP INDEX planner_suggestions_open, planner_suggestions_state;
UPDATE planner_state SET trigger = 'time_reached' WHERE trigger = 'group_changed';
UPDATE planner_state SET urged = 'outcome_changed' WHERE urged = 'group_changed';
ALTER TABLE planner_state
    DROP CONSTRAINT planner_state_trigger_check,
    ADD CONSTRAINT planner_state_trigger_check CHECK (trigger IN ('failures_changed', 'outcome_changed', 'never_analysed', 'time_reached')),
    DROP CONSTRAINT planner_state_urged_check,
    ADD CONSTRAINT planner_state_urged_check CHECK (urged IN ('failures_changed', 'outcome_changed'));
