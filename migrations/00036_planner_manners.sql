-- What the planner may do by itself is said by a person: it acts where an endpoint says so, and the word of a person who cleared, undid or
-- rejected something stands for a while. A hint may be for an outage.

-- +goose Up

-- Endpoints that are there keep what they have.
ALTER TABLE endpoints ALTER COLUMN planner SET DEFAULT 'observe';

ALTER TABLE hints
    ADD COLUMN outage_since timestamptz, -- an interval hint for an outage that began then; null: an ordinary hint
    ADD CONSTRAINT hints_outage_check CHECK (outage_since IS NULL OR kind = 'interval') NOT VALID;

-- What persons forbid the planner, one row for each kind of change of an endpoint. Only persons write it, under the lock of the schedule.
CREATE TABLE planner_holds (
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    kind        text NOT NULL CHECK (kind IN ('interval', 'one-shot', 'pause')),
    until       timestamptz NOT NULL,
    held_by     text NOT NULL, -- the name of the key
    PRIMARY KEY (endpoint_id, kind)
);

-- +goose Down
DROP TABLE planner_holds;
ALTER TABLE hints DROP COLUMN outage_since;
ALTER TABLE endpoints ALTER COLUMN planner SET DEFAULT 'act';
