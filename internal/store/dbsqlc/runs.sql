-- name: RunInsert :exec
-- Inserts finished runs and skipped due times into the history. An instant of the year 1, an empty
-- text, and a status code, count or digest of 0 stand for null. Rows of finished_runs are inserted
-- too, so that the feed sees the runs at commit. feed_first and feed_last are 1-based ranges of
-- feed_runs and feed_endpoints.
WITH feed AS (
    INSERT INTO finished_runs (tenant_id, at, run_ids, endpoint_ids)
    SELECT part.tenant_id, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
           (sqlc.arg('feed_runs')::uuid[])[part.first:part.last], (sqlc.arg('feed_endpoints')::uuid[])[part.first:part.last]
    FROM (SELECT unnest(sqlc.arg('feed_tenants')::uuid[]) AS tenant_id, unnest(sqlc.arg('feed_first')::int[]) AS first,
                 unnest(sqlc.arg('feed_last')::int[]) AS last) part
)
INSERT INTO runs (id, scheduled_for, endpoint_id, tenant_id, attempt, source, claim_token, worker_id, claimed_at, started_at,
                  finished_at, status, reason_code, status_code, dns_us, connect_us, tls_us, wait_us, transfer_us, response_bytes,
                  truncated, error, next_run_at, next_source, next_steps, version, failure_count, skipped_from, skipped_count,
                  body_digest, infra_attempt, decided_at, basis)
SELECT unnest(sqlc.arg('ids')::uuid[]),
       unnest(sqlc.arg('scheduled_for')::timestamptz[]),
       unnest(sqlc.arg('endpoint_ids')::uuid[]),
       unnest(sqlc.arg('tenant_ids')::uuid[]),
       unnest(sqlc.arg('attempts')::smallint[]),
       unnest(sqlc.arg('sources')::text[]),
       unnest(sqlc.arg('tokens')::bigint[]),
       unnest(sqlc.arg('worker_ids')::uuid[]),
       unnest(sqlc.arg('claimed_at')::timestamptz[]),
       unnest(sqlc.arg('started_at')::timestamptz[]),
       unnest(sqlc.arg('finished_at')::timestamptz[]),
       unnest(sqlc.arg('statuses')::text[]),
       unnest(sqlc.arg('reasons')::text[]),
       nullif(unnest(sqlc.arg('status_codes')::smallint[]), 0),
       unnest(sqlc.arg('dns_us')::int[]),
       unnest(sqlc.arg('connect_us')::int[]),
       unnest(sqlc.arg('tls_us')::int[]),
       unnest(sqlc.arg('wait_us')::int[]),
       unnest(sqlc.arg('transfer_us')::int[]),
       unnest(sqlc.arg('response_bytes')::bigint[]),
       unnest(sqlc.arg('truncated')::boolean[]),
       nullif(unnest(sqlc.arg('errors')::text[]), ''),
       nullif(unnest(sqlc.arg('next_run_at')::timestamptz[]), '0001-01-01 00:00:00+00'),
       nullif(unnest(sqlc.arg('next_sources')::text[]), ''),
       nullif(unnest(sqlc.arg('next_steps')::text[]), '')::jsonb,
       unnest(sqlc.arg('versions')::bigint[]),
       unnest(sqlc.arg('failure_counts')::int[]),
       nullif(unnest(sqlc.arg('skipped_from')::timestamptz[]), '0001-01-01 00:00:00+00'),
       nullif(unnest(sqlc.arg('skipped_counts')::bigint[]), 0),
       nullif(unnest(sqlc.arg('body_digests')::bigint[]), 0),
       unnest(sqlc.arg('infra_attempts')::smallint[]),
       nullif(unnest(sqlc.arg('decided_at')::timestamptz[]), '0001-01-01 00:00:00+00'),
       nullif(unnest(sqlc.arg('bases')::text[]), '')::jsonb;

-- name: RunSlots :many
-- Returns the due times of an endpoint's runs between two IDs, ascending.
SELECT scheduled_for
FROM runs
WHERE endpoint_id = @endpoint_id
  AND id >= sqlc.arg('from_id')::uuid
  AND id < sqlc.arg('before_id')::uuid
ORDER BY id
LIMIT 1000;

-- name: RunBodyInsert :exec
-- Inserts response bodies. An empty tail stands for null.
INSERT INTO run_bodies (run_id, scheduled_for, content_type, body, tail)
SELECT unnest(sqlc.arg('run_ids')::uuid[]),
       unnest(sqlc.arg('scheduled_for')::timestamptz[]),
       unnest(sqlc.arg('content_types')::text[]),
       unnest(sqlc.arg('bodies')::bytea[]),
       nullif(unnest(sqlc.arg('tails')::bytea[]), '');

-- name: RunEventInsert :exec
INSERT INTO run_events (run_id, scheduled_for, at, kind, detail)
VALUES (@run_id, @scheduled_for, coalesce(sqlc.narg('at')::timestamptz, clock_timestamp()), @kind, @detail);

-- name: RunEventList :many
SELECT at, kind, detail
FROM run_events
WHERE run_id = @run_id AND scheduled_for = @scheduled_for
ORDER BY at
LIMIT sqlc.arg('max_rows')::int;

-- name: RunList :many
-- Returns finished runs, newest first. An ID contains its due time, so the bounds on scheduled_for
-- prune partitions.
SELECT *
FROM runs
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('status')::text IS NULL OR status = sqlc.narg('status'))
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
  AND (sqlc.narg('from_at')::timestamptz IS NULL OR scheduled_for >= sqlc.narg('from_at'))
  AND (sqlc.narg('to_at')::timestamptz IS NULL OR scheduled_for < sqlc.narg('to_at'))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: RunListLive :many
SELECT *
FROM live_runs
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR coalesce(owner_id, endpoint_id) = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('before')::uuid IS NULL OR run_id < sqlc.narg('before'))
  AND (sqlc.narg('from_at')::timestamptz IS NULL OR slot >= sqlc.narg('from_at'))
  AND (sqlc.narg('to_at')::timestamptz IS NULL OR slot < sqlc.narg('to_at'))
ORDER BY run_id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: RunGet :one
SELECT *
FROM runs
WHERE id = @id AND scheduled_for = @scheduled_for AND tenant_id = @tenant_id;

-- name: RunBodyGet :one
SELECT content_type, body, tail
FROM run_bodies
WHERE run_id = @run_id AND scheduled_for = @scheduled_for;

-- name: RunGetLive :one
SELECT *
FROM live_runs
WHERE run_id = @run_id AND tenant_id = @tenant_id;

-- name: RunLastDecision :one
-- Returns the newest run of an endpoint that decided a due time. IDs are ordered by due time, so
-- the run that started last is among the newest 12.
SELECT started_at, finished_at, version, next_run_at, next_source, next_steps
FROM (SELECT r.started_at, r.finished_at, r.version, r.next_run_at, r.next_source, r.next_steps
      FROM runs r
      WHERE r.endpoint_id = @endpoint_id AND r.next_run_at IS NOT NULL
      ORDER BY r.id DESC
      LIMIT 12) newest
ORDER BY started_at DESC
LIMIT 1;

-- name: RunDecisionList :many
-- Returns the decisions of an endpoint's finishes, below a run ID, newest due time first.
SELECT r.id, coalesce(r.decided_at, r.finished_at)::timestamptz AS decided_at, r.version, r.next_run_at, r.next_source, r.next_steps
FROM runs r
WHERE r.endpoint_id = @endpoint_id
  AND r.tenant_id = @tenant_id
  AND r.id < sqlc.arg('before')::uuid
  AND r.next_run_at IS NOT NULL
ORDER BY r.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: HistoryCreateDay :exec
SELECT history_create_day((sqlc.arg('day')::timestamptz AT TIME ZONE 'UTC')::date,
                          (coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AT TIME ZONE 'UTC')::date);

-- name: SetLockTimeout :exec
-- Sets the lock timeout of the following statements in the same transaction.
SELECT set_config('lock_timeout', sqlc.arg('wait_ms')::bigint::text, true);

-- name: HistoryDropBefore :one
SELECT history_drop_before(sqlc.arg('parent')::text, (sqlc.arg('day')::timestamptz AT TIME ZONE 'UTC')::date)::int AS dropped;
