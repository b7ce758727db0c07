-- The checks of an endpoint as one. Postgres reads the text of every check of a table anew for every statement that writes to it, which
-- was half of what it took to register an endpoint's row; the body of a function it reads once for each connection.

-- +goose Up
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

-- Every row has passed the same checks, so nothing has to be read while the table is locked; the next migration makes sure.
ALTER TABLE endpoints
    ADD CONSTRAINT endpoints_sound CHECK (endpoint_is_sound(endpoints)) NOT VALID,
    DROP CONSTRAINT endpoints_backoff_check,
    DROP CONSTRAINT endpoints_baseline_check,
    DROP CONSTRAINT endpoints_baseline_cron_check,
    DROP CONSTRAINT endpoints_baseline_interval_ms_check,
    DROP CONSTRAINT endpoints_body_check,
    DROP CONSTRAINT endpoints_catch_up_check,
    DROP CONSTRAINT endpoints_clamps_check,
    DROP CONSTRAINT endpoints_delivery_check,
    DROP CONSTRAINT endpoints_description_check,
    DROP CONSTRAINT endpoints_dst_gap_check,
    DROP CONSTRAINT endpoints_dst_overlap_check,
    DROP CONSTRAINT endpoints_follow_redirects_check,
    DROP CONSTRAINT endpoints_headers_check,
    DROP CONSTRAINT endpoints_jitter_ms_check,
    DROP CONSTRAINT endpoints_key_check,
    DROP CONSTRAINT endpoints_labels_check,
    DROP CONSTRAINT endpoints_max_execution_time_ms_check,
    DROP CONSTRAINT endpoints_max_interval_ms_check,
    DROP CONSTRAINT endpoints_max_response_kb_check,
    DROP CONSTRAINT endpoints_method_check,
    DROP CONSTRAINT endpoints_min_interval_ms_check,
    DROP CONSTRAINT endpoints_name_check,
    DROP CONSTRAINT endpoints_planner_check,
    DROP CONSTRAINT endpoints_retry_backoff_ms_check,
    DROP CONSTRAINT endpoints_retry_max_attempts_check,
    DROP CONSTRAINT endpoints_retry_max_backoff_ms_check,
    DROP CONSTRAINT endpoints_start_at_check,
    DROP CONSTRAINT endpoints_success_check,
    DROP CONSTRAINT endpoints_timeout_check,
    DROP CONSTRAINT endpoints_timeout_ms_check,
    DROP CONSTRAINT endpoints_timezone_check,
    DROP CONSTRAINT endpoints_url_check,
    DROP CONSTRAINT endpoints_version_check;

-- +goose Down
ALTER TABLE endpoints
    DROP CONSTRAINT endpoints_sound,
    ADD CHECK (version > 0),
    ADD CHECK (key ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    ADD CHECK (length(name) BETWEEN 1 AND 255),
    ADD CHECK (length(description) <= 4000),
    ADD CHECK (jsonb_typeof(labels) = 'object' AND NOT jsonb_path_exists(labels, '$.* ? (@.type() != "string")')),
    ADD CHECK (url ~ '^https?://' AND length(url) <= 2048),
    ADD CHECK (method IN ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')),
    ADD CHECK (jsonb_typeof(headers) = 'object' AND NOT jsonb_path_exists(headers, '$.* ? (@.type() != "string")')),
    ADD CHECK (octet_length(body) <= 262144),
    ADD CHECK (length(baseline_cron) <= 255),
    ADD CHECK (baseline_interval_ms = 0 OR baseline_interval_ms BETWEEN 1000 AND 31622400000),
    ADD CHECK (timezone <> ''),
    ADD CHECK (dst_gap IN ('run', 'skip')),
    ADD CHECK (dst_overlap IN ('once', 'both')),
    ADD CHECK (start_at >= '2020-01-01' AND start_at < '2200-01-01'),
    ADD CHECK (catch_up IN ('once', 'skip', 'all')),
    ADD CHECK (min_interval_ms = 0 OR min_interval_ms BETWEEN 1000 AND 31622400000),
    ADD CHECK (max_interval_ms = 0 OR max_interval_ms BETWEEN 1000 AND 31622400000),
    ADD CHECK (jitter_ms BETWEEN 0 AND 86400000),
    ADD CHECK (timeout_ms BETWEEN 1 AND 1800000),
    ADD CHECK (max_execution_time_ms BETWEEN 1000 AND 1800000),
    ADD CHECK (max_response_kb BETWEEN 0 AND 1024),
    ADD CHECK (follow_redirects BETWEEN 0 AND 10),
    ADD CHECK (length(success) BETWEEN 1 AND 255),
    ADD CHECK (retry_max_attempts BETWEEN 1 AND 10),
    ADD CHECK (retry_backoff_ms BETWEEN 1 AND 3600000),
    ADD CHECK (retry_max_backoff_ms BETWEEN 1 AND 86400000),
    ADD CONSTRAINT endpoints_baseline_check CHECK ((baseline_cron = '') <> (baseline_interval_ms = 0)),
    ADD CONSTRAINT endpoints_clamps_check CHECK (min_interval_ms = 0 OR max_interval_ms = 0 OR min_interval_ms <= max_interval_ms),
    ADD CONSTRAINT endpoints_timeout_check CHECK (timeout_ms <= max_execution_time_ms),
    ADD CONSTRAINT endpoints_backoff_check CHECK (retry_backoff_ms <= retry_max_backoff_ms),
    ADD CHECK (jsonb_typeof(delivery) = 'object'),
    ADD CHECK (planner IN ('off', 'observe', 'suggest', 'act'));
DROP FUNCTION endpoint_is_sound(endpoints);
