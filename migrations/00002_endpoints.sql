-- Endpoints: their configuration, its versions, and the validators of conditional requests.

-- +goose Up

-- endpoint_is_sound refuses documents that a worker could not handle, whichever program writes
-- them. All other rules are checked by internal/endpoints. JSON paths compare by type, so a text in
-- place of a number is refused too. The checks are one function, because Postgres parses a check
-- constraint again for every statement, and a function body once per connection.
-- +goose StatementBegin
CREATE FUNCTION endpoint_is_sound(spec jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS
$$
BEGIN
    RETURN coalesce(
        jsonb_typeof(spec) = 'object'
        AND spec @@ '$.name.type() == "string"
            && $.url like_regex "^(https?://|chain:[A-Za-z0-9])"
            && $.method like_regex "^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$"
            && (exists($.baselineCron) && !exists($.baselineIntervalMs) || exists($.baselineIntervalMs) && !exists($.baselineCron))
            && (!exists($.baselineIntervalMs) || $.baselineIntervalMs >= 1000 && $.baselineIntervalMs <= 31622400000)
            && (!exists($.minIntervalMs) || $.minIntervalMs >= 1000 && $.minIntervalMs <= 31622400000)
            && (!exists($.maxIntervalMs) || $.maxIntervalMs >= 1000 && $.maxIntervalMs <= 31622400000)
            && (!exists($.minIntervalMs) || !exists($.maxIntervalMs) || $.minIntervalMs <= $.maxIntervalMs)
            && (!exists($.budget) || $.budget like_regex "^[1-9][0-9]{0,9}/[smhd]$")
            && (!exists($.startAt) || $.startAt like_regex "Z$" && $.startAt >= "2020-01-01T" && $.startAt < "2200-01-01T")
            && $.timezone != ""
            && $.dst.gap like_regex "^(run|skip)$"
            && $.dst.overlap like_regex "^(once|both)$"
            && $.catchUp like_regex "^(once|skip|all)$"
            && (!exists($.overlap) || $.overlap like_regex "^(skip|queue|allow)$")
            && $.jitterMs >= 0 && $.jitterMs <= 86400000
            && $.timeoutMs >= 1 && $.timeoutMs <= $.maxExecutionTimeMs
            && $.maxExecutionTimeMs >= 1000 && $.maxExecutionTimeMs <= 1800000
            && $.maxResponseKb >= 0 && $.maxResponseKb <= 1024
            && $.followRedirects >= 0 && $.followRedirects <= 10
            && $.retry.maxAttempts >= 1 && $.retry.maxAttempts <= 10
            && $.retry.backoffMs >= 1 && $.retry.backoffMs <= 3600000 && $.retry.backoffMs <= $.retry.maxBackoffMs
            && $.retry.maxBackoffMs <= 86400000
            && $.idempotent.type() == "boolean"
            && $.planner like_regex "^(off|observe|suggest|act)$"
            && !exists($.* ? (@.type() == "number" && @.floor() != @))
            && !exists($.retry.* ? (@.floor() != @))
            && (!exists($.labels) || $.labels.type() == "object") && !exists($.labels.* ? (@.type() != "string"))
            && (!exists($.headers) || $.headers.type() == "object") && !exists($.headers.* ? (@.type() != "string"))
            && (!exists($.query) || $.query.type() == "object") && !exists($.query.* ? (@.type() != "string"))'
        AND length(spec ->> 'name') BETWEEN 1 AND 255
        AND (spec ->> 'key' IS NULL OR spec ->> 'key' ~ '^[a-z0-9][a-z0-9._-]{0,99}$')
        AND (spec ->> 'description' IS NULL OR length(spec ->> 'description') <= 4000)
        AND length(spec ->> 'url') <= 2048
        AND (spec ->> 'body' IS NULL OR octet_length(spec ->> 'body') <= 262144)
        AND (spec ->> 'baselineCron' IS NULL OR length(spec ->> 'baselineCron') BETWEEN 1 AND 255)
        AND length(spec ->> 'success') BETWEEN 1 AND 255,
        false);
END
$$;
-- +goose StatementEnd

-- url_host returns the host and port of a URL, in the form of the table hosts: lower case, without a
-- final dot, with the default port of the scheme, IPv6 in brackets. Null: the URL is not HTTP, or a
-- template provides the host.
-- +goose StatementBegin
CREATE FUNCTION url_host(url text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT AS
$$
DECLARE
    authority text := lower(substring(url FROM '^https?://([^/?#]*)'));
    port text;
    name text;
BEGIN
    IF authority IS NULL OR authority = '' OR authority LIKE '%{{%' THEN
        RETURN NULL;
    END IF;
    authority := regexp_replace(authority, '^.*@', '');
    port := coalesce(substring(authority FROM ':([0-9]+)$'), CASE WHEN url LIKE 'https:%' THEN '443' ELSE '80' END);
    name := regexp_replace(regexp_replace(authority, ':[0-9]*$', ''), '[.]$', '');
    IF name LIKE '[%' THEN
        name := regexp_replace(host(trim(BOTH '[]' FROM name)::inet), '^::ffff:([0-9.]+)$', '\1');
        name := CASE WHEN name LIKE '%:%' THEN '[' || name || ']' ELSE name END;
    END IF;
    RETURN name || ':' || port::integer;
EXCEPTION
    WHEN data_exception THEN RETURN NULL; -- An address with a zone, or a port without end.
END
$$;
-- +goose StatementEnd

-- The configuration is one JSON document, in the form of the API. Generated columns hold the
-- members that statements filter, join or sort by. A new member of the document needs no migration
-- unless SQL refers to it.
CREATE TABLE endpoints (
    id                    uuid PRIMARY KEY,
    tenant_id             uuid NOT NULL REFERENCES tenants (id),
    version               bigint NOT NULL,
    created_at            timestamptz NOT NULL,
    updated_at            timestamptz NOT NULL,
    archived_at           timestamptz,
    spec                  jsonb NOT NULL,
    -- Keys the digests of redacted answers, so that they cannot be compared with guesses. It is never
    -- shown.
    digest_key            uuid NOT NULL DEFAULT gen_random_uuid(),
    key                   text GENERATED ALWAYS AS (spec ->> 'key') STORED,
    name                  text NOT NULL GENERATED ALWAYS AS (spec ->> 'name') STORED,
    host                  text GENERATED ALWAYS AS (url_host(spec ->> 'url')) STORED,
    labels                jsonb NOT NULL GENERATED ALWAYS AS (coalesce(spec -> 'labels', '{}')) STORED,
    planner               text NOT NULL GENERATED ALWAYS AS (spec ->> 'planner') STORED,
    max_execution_time_ms integer NOT NULL GENERATED ALWAYS AS ((spec -> 'maxExecutionTimeMs')::integer) STORED,
    -- True if runs start after their due times by design, because of jitter, catch-up or a queue.
    -- Their lag does not count.
    late_by_intent        boolean NOT NULL GENERATED ALWAYS AS
        ((spec -> 'jitterMs')::bigint > 0 OR spec ->> 'catchUp' = 'all' AND spec ? 'baselineCron' OR coalesce(spec ->> 'overlap', '') IN ('queue', 'allow')) STORED,
    CONSTRAINT endpoints_sound CHECK (version > 0 AND endpoint_is_sound(spec))
);
CREATE INDEX endpoints_tenant ON endpoints (tenant_id, id DESC);
CREATE INDEX endpoints_archived ON endpoints (tenant_id, id DESC) WHERE archived_at IS NOT NULL;
CREATE INDEX endpoints_serving ON endpoints (tenant_id, id DESC) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX endpoints_key_unique ON endpoints (tenant_id, key) WHERE archived_at IS NULL;
CREATE INDEX endpoints_host ON endpoints (tenant_id, host, id DESC) WHERE host IS NOT NULL;
CREATE INDEX endpoints_labels ON endpoints USING gin (labels jsonb_path_ops);
CREATE INDEX endpoints_name ON endpoints (tenant_id, name text_pattern_ops, id DESC);
-- The default of 100 values is too few to estimate how many names start with a prefix.
ALTER TABLE endpoints ALTER COLUMN name SET STATISTICS 1000;

-- Every version of an endpoint's configuration. The statement that inserts the audit log entry of a
-- change inserts the version too. Retention drops a replaced version together with audit log
-- entries of the same age. The current version is kept.
CREATE TABLE endpoint_versions (
    -- No foreign key, because rows are copied from endpoints, and endpoints are never deleted.
    endpoint_id uuid NOT NULL,
    version     bigint NOT NULL,
    tenant_id   uuid NOT NULL,
    spec        jsonb NOT NULL,
    changed_at  timestamptz NOT NULL,
    changed_by  text NOT NULL,
    -- The audit log entry of the change.
    audit_id    uuid,
    -- When the next version was created. Null: this version is current.
    replaced_at timestamptz,
    PRIMARY KEY (endpoint_id, version)
);
CREATE INDEX endpoint_versions_replaced ON endpoint_versions (replaced_at) WHERE replaced_at IS NOT NULL;

-- The HTTP validators of the last successful response, for endpoints with conditional requests.
CREATE TABLE validators (
    endpoint_id   uuid PRIMARY KEY REFERENCES endpoints (id),
    -- The fingerprint of the request. Validators are ignored for another request, so an edit need
    -- not delete them.
    request       bigint NOT NULL,
    -- Empty: the response had none.
    etag          text NOT NULL CHECK (length(etag) <= 1024),
    -- Empty: the response had none.
    last_modified text NOT NULL CHECK (length(last_modified) <= 1024),
    updated_at    timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- The state of the search for noise in the answers of an endpoint, as internal/change encodes it.
CREATE TABLE noise_watches (
    endpoint_id uuid PRIMARY KEY REFERENCES endpoints (id),
    state       bytea NOT NULL CHECK (octet_length(state) BETWEEN 1 AND 8192),
    updated_at  timestamptz NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);

-- The members of answers that were found to be noise. Answers are compared without them unless a
-- person rejected the finding.
CREATE TABLE noise (
    endpoint_id uuid NOT NULL REFERENCES endpoints (id),
    -- A JSONPath.
    path        text NOT NULL CHECK (length(path) BETWEEN 1 AND 1024),
    found_at    timestamptz NOT NULL,
    -- The evidence: the number of answers that differed in the member, and the mean time between the
    -- last ones.
    pairs       smallint NOT NULL CHECK (pairs >= 0),
    gap_ms      bigint NOT NULL CHECK (gap_ms >= 0),
    rejected_at timestamptz,
    rejected_by text,
    PRIMARY KEY (endpoint_id, path),
    CONSTRAINT noise_rejected_check CHECK ((rejected_at IS NULL) = (rejected_by IS NULL))
);

-- +goose Down
DROP TABLE noise, noise_watches, validators, endpoint_versions, endpoints;
DROP FUNCTION url_host(text);
DROP FUNCTION endpoint_is_sound(jsonb);
