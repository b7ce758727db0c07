-- What is known of answers beside their status.

-- +goose Up

-- A fingerprint of the body as it was kept, so that readers of many runs can tell whether the answer changed without reading bodies, also
-- after those are gone. It is computed by whoever writes the row; null: no body came, or a program of before wrote the row.
ALTER TABLE runs ADD COLUMN body_digest bigint;

-- The end of a body that was longer than the head that is kept; null: none is.
ALTER TABLE run_bodies ADD COLUMN tail bytea;

-- What the last successful answer of an endpoint with conditional requests was identified by. Only such endpoints have a row. It is worth
-- nothing for another request than the one that it came with, whose fingerprint it names, so an edit need not find it.
CREATE TABLE validators (
    endpoint_id   uuid PRIMARY KEY REFERENCES endpoints (id),
    request       bigint NOT NULL,
    etag          text NOT NULL CHECK (length(etag) <= 1024),          -- empty: none
    last_modified text NOT NULL CHECK (length(last_modified) <= 1024), -- empty: none
    updated_at    timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- +goose Down
DROP TABLE validators;
ALTER TABLE run_bodies DROP COLUMN tail;
ALTER TABLE runs DROP COLUMN body_digest;
