-- name: EndpointFindByIDs :many
-- Those that are in service.
SELECT *
FROM endpoints
WHERE id = ANY (sqlc.arg('ids')::uuid[])
  AND tenant_id = @tenant_id
  AND archived_at IS NULL;

-- name: EndpointFindByKeys :many
-- Those that are in service.
SELECT *
FROM endpoints
WHERE tenant_id = @tenant_id
  AND key = ANY (sqlc.arg('keys')::text[])
  AND archived_at IS NULL;

-- name: EndpointInsertMany :many
-- Adds endpoints, and leaves out those whose key somebody else has taken. They come sorted by key, so that two batches that wait for
-- each other's keys do so in one order. An empty key and an instant of the year 1 mean none.
INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, key, name, description, labels, url, method, headers,
                       body, baseline_cron, baseline_interval_ms, timezone, dst_gap, dst_overlap, start_at, catch_up, min_interval_ms,
                       max_interval_ms, jitter_ms, timeout_ms, max_execution_time_ms, max_response_kb, follow_redirects, success,
                       retry_max_attempts, retry_backoff_ms, retry_max_backoff_ms, idempotent, delivery, planner)
SELECT unnest(sqlc.arg('ids')::uuid[]), sqlc.arg('tenant_id')::uuid, 1, sqlc.arg('now')::timestamptz, sqlc.arg('now')::timestamptz,
       nullif(unnest(sqlc.arg('keys')::text[]), ''), unnest(sqlc.arg('names')::text[]), unnest(sqlc.arg('descriptions')::text[]),
       unnest(sqlc.arg('labels')::text[])::jsonb, unnest(sqlc.arg('urls')::text[]), unnest(sqlc.arg('methods')::text[]),
       unnest(sqlc.arg('headers')::text[])::jsonb, unnest(sqlc.arg('bodies')::text[]), unnest(sqlc.arg('baseline_crons')::text[]),
       unnest(sqlc.arg('baseline_interval_ms')::bigint[]), unnest(sqlc.arg('timezones')::text[]), unnest(sqlc.arg('dst_gaps')::text[]),
       unnest(sqlc.arg('dst_overlaps')::text[]), nullif(unnest(sqlc.arg('start_at')::timestamptz[]), '0001-01-01 00:00:00+00'),
       unnest(sqlc.arg('catch_ups')::text[]), unnest(sqlc.arg('min_interval_ms')::bigint[]), unnest(sqlc.arg('max_interval_ms')::bigint[]),
       unnest(sqlc.arg('jitter_ms')::bigint[]), unnest(sqlc.arg('timeout_ms')::bigint[]), unnest(sqlc.arg('max_execution_time_ms')::bigint[]),
       unnest(sqlc.arg('max_response_kb')::int[]), unnest(sqlc.arg('follow_redirects')::int[]), unnest(sqlc.arg('successes')::text[]),
       unnest(sqlc.arg('retry_max_attempts')::int[]), unnest(sqlc.arg('retry_backoff_ms')::bigint[]),
       unnest(sqlc.arg('retry_max_backoff_ms')::bigint[]), unnest(sqlc.arg('idempotent')::boolean[]),
       unnest(sqlc.arg('deliveries')::text[])::jsonb, unnest(sqlc.arg('planners')::text[])
ON CONFLICT (tenant_id, key) WHERE archived_at IS NULL DO NOTHING
RETURNING id;

-- name: EndpointUpdateMany :execrows
-- Replaces the fields of endpoints that still have the version which the change was based on.
UPDATE endpoints e
SET version = n.old_version + 1, updated_at = sqlc.arg('now')::timestamptz, key = nullif(n.key, ''), name = n.name, description = n.description,
    labels = n.labels::jsonb, url = n.url, method = n.method, headers = n.headers::jsonb, body = n.body, baseline_cron = n.baseline_cron,
    baseline_interval_ms = n.baseline_interval_ms, timezone = n.timezone, dst_gap = n.dst_gap, dst_overlap = n.dst_overlap,
    start_at = nullif(n.start_at, '0001-01-01 00:00:00+00'), catch_up = n.catch_up, min_interval_ms = n.min_interval_ms,
    max_interval_ms = n.max_interval_ms, jitter_ms = n.jitter_ms, timeout_ms = n.timeout_ms,
    max_execution_time_ms = n.max_execution_time_ms, max_response_kb = n.max_response_kb, follow_redirects = n.follow_redirects,
    success = n.success, retry_max_attempts = n.retry_max_attempts, retry_backoff_ms = n.retry_backoff_ms,
    retry_max_backoff_ms = n.retry_max_backoff_ms, idempotent = n.idempotent,
    delivery = n.delivery::jsonb, planner = n.planner
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('old_versions')::bigint[]) AS old_version,
             unnest(sqlc.arg('keys')::text[]) AS key, unnest(sqlc.arg('names')::text[]) AS name,
             unnest(sqlc.arg('descriptions')::text[]) AS description, unnest(sqlc.arg('labels')::text[]) AS labels,
             unnest(sqlc.arg('urls')::text[]) AS url, unnest(sqlc.arg('methods')::text[]) AS method,
             unnest(sqlc.arg('headers')::text[]) AS headers, unnest(sqlc.arg('bodies')::text[]) AS body,
             unnest(sqlc.arg('baseline_crons')::text[]) AS baseline_cron,
             unnest(sqlc.arg('baseline_interval_ms')::bigint[]) AS baseline_interval_ms, unnest(sqlc.arg('timezones')::text[]) AS timezone,
             unnest(sqlc.arg('dst_gaps')::text[]) AS dst_gap, unnest(sqlc.arg('dst_overlaps')::text[]) AS dst_overlap,
             unnest(sqlc.arg('start_at')::timestamptz[]) AS start_at, unnest(sqlc.arg('catch_ups')::text[]) AS catch_up,
             unnest(sqlc.arg('min_interval_ms')::bigint[]) AS min_interval_ms, unnest(sqlc.arg('max_interval_ms')::bigint[]) AS max_interval_ms,
             unnest(sqlc.arg('jitter_ms')::bigint[]) AS jitter_ms, unnest(sqlc.arg('timeout_ms')::bigint[]) AS timeout_ms,
             unnest(sqlc.arg('max_execution_time_ms')::bigint[]) AS max_execution_time_ms,
             unnest(sqlc.arg('max_response_kb')::int[]) AS max_response_kb, unnest(sqlc.arg('follow_redirects')::int[]) AS follow_redirects,
             unnest(sqlc.arg('successes')::text[]) AS success, unnest(sqlc.arg('retry_max_attempts')::int[]) AS retry_max_attempts,
             unnest(sqlc.arg('retry_backoff_ms')::bigint[]) AS retry_backoff_ms,
             unnest(sqlc.arg('retry_max_backoff_ms')::bigint[]) AS retry_max_backoff_ms,
             unnest(sqlc.arg('idempotent')::boolean[]) AS idempotent, unnest(sqlc.arg('deliveries')::text[]) AS delivery,
             unnest(sqlc.arg('planners')::text[]) AS planner) n
WHERE e.id = n.id AND e.tenant_id = sqlc.arg('tenant_id')::uuid AND e.version = n.old_version AND e.archived_at IS NULL;

-- name: ScheduleInsertMany :exec
-- An instant of the year 1 means none.
INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, version, lock_ms, attempt, source, anchor, failure_count)
SELECT n.endpoint_id, sqlc.arg('tenant_id')::uuid, n.planned_at, n.planned_at, n.slot, 0, 1, n.lock_ms, 1, n.source, nullif(n.anchor, '0001-01-01 00:00:00+00'), 0
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('planned_at')::timestamptz[]) AS planned_at,
             unnest(sqlc.arg('slot')::timestamptz[]) AS slot, unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms,
             unnest(sqlc.arg('source')::text[]) AS source, unnest(sqlc.arg('anchor')::timestamptz[]) AS anchor) n;

-- name: ScheduleReplanMany :execrows
-- Puts new plans in force after edits, and revokes every claim. An instant of the year 1 means none.
UPDATE schedules s
SET due_at = n.planned_at, planned_at = n.planned_at, slot = n.slot, attempt = n.attempt, infra_attempt = n.infra_attempt, source = n.source, version = n.version,
    lock_ms = n.lock_ms, accounted_until = n.accounted_until, retry_after = nullif(n.retry_after, '0001-01-01 00:00:00+00'), claim_token = s.claim_token + 1, claimed_by = NULL, claimed_at = NULL
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('planned_at')::timestamptz[]) AS planned_at,
             unnest(sqlc.arg('slot')::timestamptz[]) AS slot, unnest(sqlc.arg('attempt')::smallint[]) AS attempt,
             unnest(sqlc.arg('infra_attempt')::smallint[]) AS infra_attempt,
             unnest(sqlc.arg('source')::text[]) AS source, unnest(sqlc.arg('version')::bigint[]) AS version,
             unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms, unnest(sqlc.arg('accounted_until')::timestamptz[]) AS accounted_until,
             unnest(sqlc.arg('retry_after')::timestamptz[]) AS retry_after) n
WHERE s.endpoint_id = n.endpoint_id;

-- name: ScheduleRecordMany :execrows
-- Records edits of endpoints that have a live run: its finish will replan. An instant of the year 1 means none.
UPDATE schedules s
SET version = n.version, lock_ms = n.lock_ms, accounted_until = n.accounted_until, retry_after = nullif(n.retry_after, '0001-01-01 00:00:00+00'),
    revision = s.revision + 1
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('version')::bigint[]) AS version,
             unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms, unnest(sqlc.arg('accounted_until')::timestamptz[]) AS accounted_until,
             unnest(sqlc.arg('retry_after')::timestamptz[]) AS retry_after) n
WHERE s.endpoint_id = n.endpoint_id;

-- name: DecisionInsertMany :exec
INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input)
SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]), unnest(sqlc.arg('decided_at')::timestamptz[]), unnest(sqlc.arg('causes')::text[]),
       unnest(sqlc.arg('authors')::text[]), unnest(sqlc.arg('versions')::bigint[]), unnest(sqlc.arg('next_run_at')::timestamptz[]),
       unnest(sqlc.arg('next_sources')::text[]), unnest(sqlc.arg('next_steps')::text[])::jsonb, unnest(sqlc.arg('inputs')::text[])::jsonb;
