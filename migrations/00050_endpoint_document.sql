-- The configuration of an endpoint is one document, as the API writes it. Columns that are generated from it hold what statements filter,
-- join or sort by. A new field of the document needs no migration unless SQL asks for it.

-- +goose Up
ALTER TABLE endpoints ADD COLUMN spec jsonb;
UPDATE endpoints
SET spec = jsonb_strip_nulls(jsonb_build_object(
        'name', name, 'key', key, 'description', nullif(description, ''), 'labels', nullif(labels, '{}'),
        'url', url, 'method', method, 'headers', nullif(headers, '{}'), 'body', nullif(body, ''),
        'baselineCron', nullif(baseline_cron, ''), 'baselineIntervalMs', nullif(baseline_interval_ms, 0), 'timezone', timezone,
        'dst', jsonb_build_object('gap', dst_gap, 'overlap', dst_overlap),
        'startAt', to_char(start_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'catchUp', catch_up,
        'minIntervalMs', nullif(min_interval_ms, 0), 'maxIntervalMs', nullif(max_interval_ms, 0), 'jitterMs', jitter_ms,
        'timeoutMs', timeout_ms, 'maxExecutionTimeMs', max_execution_time_ms, 'maxResponseKb', max_response_kb,
        'followRedirects', follow_redirects, 'success', success,
        'retry', jsonb_build_object('maxAttempts', retry_max_attempts, 'backoffMs', retry_backoff_ms, 'maxBackoffMs', retry_max_backoff_ms),
        'idempotent', idempotent, 'planner', planner,
        'sign', false, 'conditional', false, 'responseTailKb', 0)) || delivery;

ALTER TABLE endpoints DROP CONSTRAINT endpoints_sound;
DROP FUNCTION endpoint_is_sound(endpoints);
ALTER TABLE endpoints
    DROP COLUMN key, DROP COLUMN name, DROP COLUMN description, DROP COLUMN labels, DROP COLUMN url, DROP COLUMN method,
    DROP COLUMN headers, DROP COLUMN body, DROP COLUMN baseline_cron, DROP COLUMN baseline_interval_ms, DROP COLUMN timezone,
    DROP COLUMN dst_gap, DROP COLUMN dst_overlap, DROP COLUMN start_at, DROP COLUMN catch_up, DROP COLUMN min_interval_ms,
    DROP COLUMN max_interval_ms, DROP COLUMN jitter_ms, DROP COLUMN timeout_ms, DROP COLUMN max_execution_time_ms,
    DROP COLUMN max_response_kb, DROP COLUMN follow_redirects, DROP COLUMN success, DROP COLUMN retry_max_attempts,
    DROP COLUMN retry_backoff_ms, DROP COLUMN retry_max_backoff_ms, DROP COLUMN idempotent, DROP COLUMN delivery, DROP COLUMN planner;

-- What no document may hold, whatever program writes it. The rest is the business of internal/endpoints. The path compares by type, so a
-- text where a number belongs is refused too. The whole is one function, because Postgres reads the text of a check anew for
-- every statement, and the body of a function once for each connection.
-- +goose StatementBegin
CREATE FUNCTION endpoint_is_sound(spec jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS
$$
BEGIN
    RETURN coalesce(
        jsonb_typeof(spec) = 'object'
        AND spec @@ '$.name.type() == "string"
            && $.url like_regex "^https?://"
            && $.method like_regex "^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS)$"
            && (exists($.baselineCron) && !exists($.baselineIntervalMs) || exists($.baselineIntervalMs) && !exists($.baselineCron))
            && (!exists($.baselineIntervalMs) || $.baselineIntervalMs >= 1000 && $.baselineIntervalMs <= 31622400000)
            && (!exists($.minIntervalMs) || $.minIntervalMs >= 1000 && $.minIntervalMs <= 31622400000)
            && (!exists($.maxIntervalMs) || $.maxIntervalMs >= 1000 && $.maxIntervalMs <= 31622400000)
            && (!exists($.minIntervalMs) || !exists($.maxIntervalMs) || $.minIntervalMs <= $.maxIntervalMs)
            && (!exists($.startAt) || $.startAt like_regex "Z$" && $.startAt >= "2020-01-01T" && $.startAt < "2200-01-01T")
            && $.timezone != ""
            && $.dst.gap like_regex "^(run|skip)$"
            && $.dst.overlap like_regex "^(once|both)$"
            && $.catchUp like_regex "^(once|skip|all)$"
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
ALTER TABLE endpoints
    ALTER COLUMN spec SET NOT NULL,
    ADD COLUMN key text GENERATED ALWAYS AS (spec ->> 'key') STORED,
    ADD COLUMN name text NOT NULL GENERATED ALWAYS AS (spec ->> 'name') STORED,
    ADD COLUMN labels jsonb NOT NULL GENERATED ALWAYS AS (coalesce(spec -> 'labels', '{}')) STORED,
    ADD COLUMN planner text NOT NULL GENERATED ALWAYS AS (spec ->> 'planner') STORED,
    ADD COLUMN max_execution_time_ms integer NOT NULL GENERATED ALWAYS AS ((spec -> 'maxExecutionTimeMs')::integer) STORED,
    -- Jitter and catching up start runs after their due times by intent, so they tell nothing of lateness.
    ADD COLUMN late_by_intent boolean NOT NULL GENERATED ALWAYS AS
        ((spec -> 'jitterMs')::bigint > 0 OR spec ->> 'catchUp' = 'all' AND spec ? 'baselineCron') STORED,
    ADD CONSTRAINT endpoints_sound CHECK (version > 0 AND endpoint_is_sound(spec));
CREATE UNIQUE INDEX endpoints_key_unique ON endpoints (tenant_id, key) WHERE archived_at IS NULL;
CREATE INDEX endpoints_labels ON endpoints USING gin (labels jsonb_path_ops);
CREATE INDEX endpoints_name ON endpoints (tenant_id, name text_pattern_ops, id DESC);
ALTER TABLE endpoints ALTER COLUMN name SET STATISTICS 1000; -- How many names begin with a prefix cannot be told from a hundred of them.

-- +goose Down
ALTER TABLE endpoints DROP CONSTRAINT endpoints_sound;
DROP FUNCTION endpoint_is_sound(jsonb);
ALTER TABLE endpoints
    DROP COLUMN key, DROP COLUMN name, DROP COLUMN labels, DROP COLUMN planner, DROP COLUMN max_execution_time_ms, DROP COLUMN late_by_intent,
    ADD COLUMN key text, ADD COLUMN name text, ADD COLUMN description text, ADD COLUMN labels jsonb, ADD COLUMN url text,
    ADD COLUMN method text, ADD COLUMN headers jsonb, ADD COLUMN body text, ADD COLUMN baseline_cron text,
    ADD COLUMN baseline_interval_ms bigint, ADD COLUMN timezone text, ADD COLUMN dst_gap text, ADD COLUMN dst_overlap text,
    ADD COLUMN start_at timestamptz, ADD COLUMN catch_up text, ADD COLUMN min_interval_ms bigint, ADD COLUMN max_interval_ms bigint,
    ADD COLUMN jitter_ms bigint, ADD COLUMN timeout_ms bigint, ADD COLUMN max_execution_time_ms bigint, ADD COLUMN max_response_kb integer,
    ADD COLUMN follow_redirects integer, ADD COLUMN success text, ADD COLUMN retry_max_attempts integer, ADD COLUMN retry_backoff_ms bigint,
    ADD COLUMN retry_max_backoff_ms bigint, ADD COLUMN idempotent boolean, ADD COLUMN delivery jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN planner text DEFAULT 'observe';
UPDATE endpoints
SET key = spec ->> 'key', name = spec ->> 'name', description = coalesce(spec ->> 'description', ''), labels = coalesce(spec -> 'labels', '{}'),
    url = spec ->> 'url', method = spec ->> 'method', headers = coalesce(spec -> 'headers', '{}'), body = coalesce(spec ->> 'body', ''),
    baseline_cron = coalesce(spec ->> 'baselineCron', ''), baseline_interval_ms = coalesce((spec -> 'baselineIntervalMs')::bigint, 0),
    timezone = spec ->> 'timezone', dst_gap = spec #>> '{dst,gap}', dst_overlap = spec #>> '{dst,overlap}',
    start_at = (spec ->> 'startAt')::timestamptz, catch_up = spec ->> 'catchUp',
    min_interval_ms = coalesce((spec -> 'minIntervalMs')::bigint, 0), max_interval_ms = coalesce((spec -> 'maxIntervalMs')::bigint, 0),
    jitter_ms = (spec -> 'jitterMs')::bigint, timeout_ms = (spec -> 'timeoutMs')::bigint,
    max_execution_time_ms = (spec -> 'maxExecutionTimeMs')::bigint, max_response_kb = (spec -> 'maxResponseKb')::integer,
    follow_redirects = (spec -> 'followRedirects')::integer, success = spec ->> 'success',
    retry_max_attempts = (spec #> '{retry,maxAttempts}')::integer, retry_backoff_ms = (spec #> '{retry,backoffMs}')::bigint,
    retry_max_backoff_ms = (spec #> '{retry,maxBackoffMs}')::bigint, idempotent = (spec -> 'idempotent')::boolean,
    planner = spec ->> 'planner',
    delivery = jsonb_strip_nulls(jsonb_build_object(
        'sign', nullif(spec -> 'sign', 'false'), 'conditional', nullif(spec -> 'conditional', 'false'),
        'responseTailKb', nullif(spec -> 'responseTailKb', '0')))
        || spec - ARRAY ['name', 'key', 'description', 'labels', 'url', 'method', 'headers', 'body', 'baselineCron', 'baselineIntervalMs',
                         'timezone', 'dst', 'startAt', 'catchUp', 'minIntervalMs', 'maxIntervalMs', 'jitterMs', 'timeoutMs',
                         'maxExecutionTimeMs', 'maxResponseKb', 'followRedirects', 'success', 'retry', 'idempotent', 'planner',
                         'sign', 'conditional', 'responseTailKb'];
ALTER TABLE endpoints
    DROP COLUMN spec,
    ALTER COLUMN name SET NOT NULL, ALTER COLUMN description SET NOT NULL, ALTER COLUMN labels SET NOT NULL, ALTER COLUMN url SET NOT NULL,
    ALTER COLUMN method SET NOT NULL, ALTER COLUMN headers SET NOT NULL, ALTER COLUMN body SET NOT NULL,
    ALTER COLUMN baseline_cron SET NOT NULL, ALTER COLUMN baseline_interval_ms SET NOT NULL, ALTER COLUMN timezone SET NOT NULL,
    ALTER COLUMN dst_gap SET NOT NULL, ALTER COLUMN dst_overlap SET NOT NULL, ALTER COLUMN catch_up SET NOT NULL,
    ALTER COLUMN min_interval_ms SET NOT NULL, ALTER COLUMN max_interval_ms SET NOT NULL, ALTER COLUMN jitter_ms SET NOT NULL,
    ALTER COLUMN timeout_ms SET NOT NULL, ALTER COLUMN max_execution_time_ms SET NOT NULL, ALTER COLUMN max_response_kb SET NOT NULL,
    ALTER COLUMN follow_redirects SET NOT NULL, ALTER COLUMN success SET NOT NULL, ALTER COLUMN retry_max_attempts SET NOT NULL,
    ALTER COLUMN retry_backoff_ms SET NOT NULL, ALTER COLUMN retry_max_backoff_ms SET NOT NULL, ALTER COLUMN idempotent SET NOT NULL,
    ALTER COLUMN planner SET NOT NULL;
CREATE UNIQUE INDEX endpoints_key_unique ON endpoints (tenant_id, key) WHERE archived_at IS NULL;
CREATE INDEX endpoints_labels ON endpoints USING gin (labels jsonb_path_ops);
CREATE INDEX endpoints_name ON endpoints (tenant_id, name text_pattern_ops, id DESC);
ALTER TABLE endpoints ALTER COLUMN name SET STATISTICS 1000;
-- +goose StatementBegin
CREATE FUNCTION endpoint_is_sound(e endpoints) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS
$$
BEGIN
    RETURN e.version > 0
        AND e.key ~ '^[a-z0-9][a-z0-9._-]{0,99}$'
        AND length(e.name) BETWEEN 1 AND 255
        AND length(e.description) <= 4000
        AND jsonb_typeof(e.labels) = 'object' AND NOT jsonb_path_exists(e.labels, '$.* ? (@.type() != "string")')
        AND e.url ~ '^https?://' AND length(e.url) <= 2048
        AND e.method IN ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')
        AND jsonb_typeof(e.headers) = 'object' AND NOT jsonb_path_exists(e.headers, '$.* ? (@.type() != "string")')
        AND octet_length(e.body) <= 262144
        AND jsonb_typeof(e.delivery) = 'object'
        AND (e.baseline_cron = '') <> (e.baseline_interval_ms = 0)
        AND length(e.baseline_cron) <= 255
        AND (e.baseline_interval_ms = 0 OR e.baseline_interval_ms BETWEEN 1000 AND 31622400000)
        AND e.timezone <> ''
        AND e.dst_gap IN ('run', 'skip')
        AND e.dst_overlap IN ('once', 'both')
        AND e.start_at >= '2020-01-01 00:00:00+00' AND e.start_at < '2200-01-01 00:00:00+00'
        AND e.catch_up IN ('once', 'skip', 'all')
        AND (e.min_interval_ms = 0 OR e.min_interval_ms BETWEEN 1000 AND 31622400000)
        AND (e.max_interval_ms = 0 OR e.max_interval_ms BETWEEN 1000 AND 31622400000)
        AND (e.min_interval_ms = 0 OR e.max_interval_ms = 0 OR e.min_interval_ms <= e.max_interval_ms)
        AND e.jitter_ms BETWEEN 0 AND 86400000
        AND e.timeout_ms BETWEEN 1 AND 1800000 AND e.timeout_ms <= e.max_execution_time_ms
        AND e.max_execution_time_ms BETWEEN 1000 AND 1800000
        AND e.max_response_kb BETWEEN 0 AND 1024
        AND e.follow_redirects BETWEEN 0 AND 10
        AND length(e.success) BETWEEN 1 AND 255
        AND e.retry_max_attempts BETWEEN 1 AND 10
        AND e.retry_backoff_ms BETWEEN 1 AND 3600000 AND e.retry_backoff_ms <= e.retry_max_backoff_ms
        AND e.retry_max_backoff_ms BETWEEN 1 AND 86400000
        AND e.planner IN ('off', 'observe', 'suggest', 'act');
END
$$;
-- +goose StatementEnd
ALTER TABLE endpoints ADD CONSTRAINT endpoints_sound CHECK (endpoint_is_sound(endpoints));
