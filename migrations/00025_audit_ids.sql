-- +goose Up

-- The identity of an entry as before, in one expression: Postgres makes it part of the plan of the statement that asks for it, where it
-- planned a query inside the function anew for every entry.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_log_id(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS
$$
SELECT encode(
    substring(int8send((extract(EPOCH FROM at) * 1000000)::bigint / 1000) FROM 3)
        || substring(int4send(32768 | ((extract(EPOCH FROM at) * 1000000)::bigint % 1000)::integer) FROM 3) -- 32768: the version, 8
        || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) FROM 9), 7, 1), 6, 0), -- the variant
    'hex')::uuid
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION audit_log_id(at timestamptz) RETURNS uuid
    LANGUAGE sql VOLATILE AS
$$
SELECT encode(
    substring(int8send(micros / 1000) FROM 3)
        || substring(int4send(32768 | (micros % 1000)::integer) FROM 3)
        || set_bit(set_bit(substring(uuid_send(gen_random_uuid()) FROM 9), 7, 1), 6, 0),
    'hex')::uuid
FROM (SELECT (extract(EPOCH FROM at) * 1000000)::bigint AS micros) AS instant
$$;
-- +goose StatementEnd
