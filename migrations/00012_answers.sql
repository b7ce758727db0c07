-- What is known of answers beside their status.

-- +goose Up

-- A fingerprint of the body as it was kept, so that readers of many runs can tell whether the answer changed without reading bodies, also
-- after those are gone. It is computed by whoever writes the row; null: no body came, or a program of before wrote the row.
ALTER TABLE runs ADD COLUMN body_digest bigint;

-- +goose Down
ALTER TABLE runs DROP COLUMN body_digest;
