-- name: EndpointFindByIDs :many
-- Returns the endpoints in service among the given IDs.
SELECT *
FROM endpoints
WHERE id = ANY (sqlc.arg('ids')::uuid[])
  AND tenant_id = @tenant_id
  AND archived_at IS NULL;

-- name: EndpointFindByKeys :many
-- Returns the endpoints in service among the given keys.
SELECT *
FROM endpoints
WHERE tenant_id = @tenant_id
  AND key = ANY (sqlc.arg('keys')::text[])
  AND archived_at IS NULL;

-- name: EndpointInsertMany :many
-- Inserts endpoints, except those with a key that exists already. The caller sorts them by key, so
-- that two batches cannot deadlock on each other's keys.
INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, spec)
SELECT unnest(sqlc.arg('ids')::uuid[]), sqlc.arg('tenant_id')::uuid, 1, sqlc.arg('now')::timestamptz, sqlc.arg('now')::timestamptz,
       unnest(sqlc.arg('specs')::text[])::jsonb
ON CONFLICT (tenant_id, key) WHERE archived_at IS NULL DO NOTHING
RETURNING id;

-- name: EndpointUpdateMany :execrows
-- Replaces the documents of endpoints that still have the version on which the change is based.
UPDATE endpoints e
SET version = n.old_version + 1, updated_at = sqlc.arg('now')::timestamptz, spec = n.spec::jsonb
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('old_versions')::bigint[]) AS old_version,
             unnest(sqlc.arg('specs')::text[]) AS spec) n
WHERE e.id = n.id AND e.tenant_id = sqlc.arg('tenant_id')::uuid AND e.version = n.old_version AND e.archived_at IS NULL;

-- name: ScheduleInsertMany :exec
-- Inserts schedules. An instant of the year 1 stands for null.
INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, version, lock_ms, tag_set_id, priority, attempt, source, anchor, failure_count)
SELECT n.endpoint_id, sqlc.arg('tenant_id')::uuid, n.planned_at, n.planned_at, n.slot, 0, 1, n.lock_ms, tag_set_number(n.tags::jsonb), n.priority, 1, n.source, nullif(n.anchor, '0001-01-01 00:00:00+00'), 0
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('planned_at')::timestamptz[]) AS planned_at,
             unnest(sqlc.arg('slot')::timestamptz[]) AS slot, unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms, unnest(sqlc.arg('tags')::text[]) AS tags,
             unnest(sqlc.arg('priorities')::smallint[]) AS priority,
             unnest(sqlc.arg('source')::text[]) AS source, unnest(sqlc.arg('anchor')::timestamptz[]) AS anchor) n;

-- name: ScheduleReplanMany :execrows
-- Stores new plans after edits and revokes every claim. An instant of the year 1 stands for null.
UPDATE schedules s
SET due_at = n.planned_at, planned_at = n.planned_at, slot = n.slot, attempt = n.attempt, infra_attempt = n.infra_attempt, source = n.source, version = n.version,
    lock_ms = n.lock_ms, tag_set_id = tag_set_number(n.tags::jsonb), priority = n.priority, failure_count = n.failure_count, runs_done = n.runs_done,
    ended_at = nullif(n.ended_at, '0001-01-01 00:00:00+00'), accounted_until = n.accounted_until, retry_after = nullif(n.retry_after, '0001-01-01 00:00:00+00'),
    target_next = nullif(n.target_next, '0001-01-01 00:00:00+00'), fresh_until = nullif(n.fresh_until, '0001-01-01 00:00:00+00'), claim_token = s.claim_token + 1, claimed_by = NULL, claimed_at = NULL
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('planned_at')::timestamptz[]) AS planned_at,
             unnest(sqlc.arg('slot')::timestamptz[]) AS slot, unnest(sqlc.arg('attempt')::smallint[]) AS attempt,
             unnest(sqlc.arg('infra_attempt')::smallint[]) AS infra_attempt,
             unnest(sqlc.arg('source')::text[]) AS source, unnest(sqlc.arg('version')::bigint[]) AS version,
             unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms, unnest(sqlc.arg('tags')::text[]) AS tags, unnest(sqlc.arg('priorities')::smallint[]) AS priority,
             unnest(sqlc.arg('failure_count')::int[]) AS failure_count, unnest(sqlc.arg('runs_done')::int[]) AS runs_done, unnest(sqlc.arg('ended_at')::timestamptz[]) AS ended_at,
             unnest(sqlc.arg('accounted_until')::timestamptz[]) AS accounted_until,
             unnest(sqlc.arg('retry_after')::timestamptz[]) AS retry_after,
             unnest(sqlc.arg('target_next')::timestamptz[]) AS target_next, unnest(sqlc.arg('fresh_until')::timestamptz[]) AS fresh_until) n
WHERE s.endpoint_id = n.endpoint_id;

-- name: ScheduleRecordMany :execrows
-- Records edits of endpoints with a live run, because the finish of the run replans. An instant of
-- the year 1 stands for null.
UPDATE schedules s
SET version = n.version, lock_ms = n.lock_ms, tag_set_id = tag_set_number(n.tags::jsonb), accounted_until = n.accounted_until, retry_after = nullif(n.retry_after, '0001-01-01 00:00:00+00'),
    target_next = nullif(n.target_next, '0001-01-01 00:00:00+00'), fresh_until = nullif(n.fresh_until, '0001-01-01 00:00:00+00'), revision = s.revision + 1
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('version')::bigint[]) AS version,
             unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms, unnest(sqlc.arg('tags')::text[]) AS tags,
             unnest(sqlc.arg('accounted_until')::timestamptz[]) AS accounted_until,
             unnest(sqlc.arg('retry_after')::timestamptz[]) AS retry_after,
             unnest(sqlc.arg('target_next')::timestamptz[]) AS target_next, unnest(sqlc.arg('fresh_until')::timestamptz[]) AS fresh_until) n
WHERE s.endpoint_id = n.endpoint_id;

-- name: DecisionInsertMany :exec
INSERT INTO decisions (endpoint_id, decided_at, cause, author, version, next_run_at, next_source, next_steps, input, claim_token, basis)
SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]), unnest(sqlc.arg('decided_at')::timestamptz[]), unnest(sqlc.arg('causes')::text[]),
       unnest(sqlc.arg('authors')::text[]), unnest(sqlc.arg('versions')::bigint[]), unnest(sqlc.arg('next_run_at')::timestamptz[]),
       unnest(sqlc.arg('next_sources')::text[]), unnest(sqlc.arg('next_steps')::text[])::jsonb, unnest(sqlc.arg('inputs')::text[])::jsonb,
       unnest(sqlc.arg('tokens')::bigint[]), unnest(sqlc.arg('bases')::text[])::jsonb;
