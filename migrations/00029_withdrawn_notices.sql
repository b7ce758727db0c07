-- The last notice of an episode that did not recover: its rule was changed or deleted, or its endpoint archived. A receiver that keeps what
-- it is told closes it then. It goes where the rule went, also when the rule goes elsewhere by now or is gone.

-- +goose Up

-- No row has to be read while the table is locked: none says more than a narrower check let it.
ALTER TABLE notices
    ADD COLUMN channel jsonb, -- where it goes; null: where its rule does
    ADD COLUMN cause text, -- why nobody looks any more
    DROP CONSTRAINT notices_kind_check,
    ADD CONSTRAINT notices_kind_check CHECK (kind IN ('opened', 'reminder', 'recovered', 'withdrawn')) NOT VALID,
    ADD CONSTRAINT notices_channel_check CHECK (jsonb_typeof(channel) = 'object') NOT VALID,
    ADD CONSTRAINT notices_cause_check CHECK (
        (kind = 'withdrawn') = (cause IS NOT NULL) AND cause IN ('rule_changed', 'rule_deleted', 'endpoint_archived')) NOT VALID;

-- +goose Down
ALTER TABLE notices
    DROP CONSTRAINT notices_kind_check,
    DROP COLUMN cause,
    DROP COLUMN channel;
DELETE FROM notices WHERE kind = 'withdrawn';
ALTER TABLE notices ADD CONSTRAINT notices_kind_check CHECK (kind IN ('opened', 'reminder', 'recovered'));
