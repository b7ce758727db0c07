-- How a call is shaped, judged and kept beyond the plain request, and what the planner may do. Most endpoints use little of it, and it
-- is read whole with the configuration, so it is one document; what it holds is checked where it is written.

-- +goose Up
ALTER TABLE endpoints ADD COLUMN delivery jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(delivery) = 'object');
ALTER TABLE endpoints ADD COLUMN planner text NOT NULL DEFAULT 'act' CHECK (planner IN ('off', 'observe', 'suggest', 'act'));

-- +goose Down
ALTER TABLE endpoints DROP COLUMN planner;
ALTER TABLE endpoints DROP COLUMN delivery;
