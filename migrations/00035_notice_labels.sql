-- The labels that an endpoint had when an episode opened. Alertmanager knows an alert by its labels, so they must not change while it is open.

-- +goose Up
ALTER TABLE notice_episodes
    ADD COLUMN labels jsonb, -- null: an older program opened it; the endpoint's labels of the moment stand in
    ADD CONSTRAINT notice_episodes_labels_check CHECK (jsonb_typeof(labels) = 'object') NOT VALID; -- No row has to be read: all are null.

-- +goose Down
ALTER TABLE notice_episodes DROP COLUMN labels;
