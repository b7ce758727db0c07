-- name: DecisionTime :one
-- Returns the instant of a decision: database time in whole milliseconds, because every due time
-- has that resolution. It is rounded up, so that a run planned for now never gets a due time that
-- has already passed. The caller skips due times with runs that started early (passRuns).
SELECT date_trunc('milliseconds', coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + interval '999 us')::timestamptz AS now;

-- name: EndpointInsert :exec
INSERT INTO endpoints (id, tenant_id, version, created_at, updated_at, archived_at, spec)
VALUES (@id, @tenant_id, @version, @created_at, @updated_at, @archived_at, @spec);

-- name: EndpointUpdate :execrows
UPDATE endpoints
SET version = @version, updated_at = @updated_at, archived_at = @archived_at, spec = @spec
WHERE id = @id AND tenant_id = @tenant_id AND version = sqlc.arg('old_version')::bigint;

-- name: EndpointGetMany :many
SELECT *
FROM endpoints
WHERE id = ANY (sqlc.arg('ids')::uuid[]);

-- name: EndpointGet :one
SELECT *
FROM endpoints
WHERE id = @id AND tenant_id = @tenant_id;

-- name: EndpointFind :many
-- Returns the endpoint or no row. Its plan is cached, and while the table is empty, indexes by
-- tenant look as cheap as the primary key. IS TRUE keeps the planner from matching the tenant, and
-- the order, which only the primary key has, makes it use that key.
SELECT *
FROM endpoints
WHERE id = ANY (ARRAY [@id::uuid]) AND (tenant_id = @tenant_id) IS TRUE
ORDER BY id;

-- name: EndpointList :many
SELECT e.*
FROM endpoints e
         LEFT JOIN schedules s ON s.endpoint_id = e.id
WHERE e.tenant_id = @tenant_id
  AND (sqlc.narg('before')::uuid IS NULL OR e.id < sqlc.narg('before'))
  AND (sqlc.narg('key')::text IS NULL OR e.key = sqlc.narg('key'))
  AND (sqlc.narg('name')::text IS NULL OR e.name = sqlc.narg('name'))
  AND (sqlc.narg('host')::text IS NULL OR e.host = sqlc.narg('host'))
  AND (sqlc.narg('name_like')::text IS NULL OR e.name LIKE sqlc.narg('name_like'))
  AND (sqlc.narg('labels')::jsonb IS NULL OR e.labels @> sqlc.narg('labels'))
  AND CASE sqlc.arg('state')::text
          WHEN 'archived' THEN e.archived_at IS NOT NULL
          WHEN 'active' THEN e.archived_at IS NULL AND coalesce(s.paused_until <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), true)
          ELSE e.archived_at IS NULL END
ORDER BY e.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: EndpointListPaused :many
-- Works like EndpointList for paused endpoints. It starts at the index of paused schedules, which
-- is small.
SELECT e.*
FROM schedules s
         JOIN endpoints e ON e.id = s.endpoint_id
WHERE s.paused_until IS NOT NULL
  AND s.paused_until > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
  AND (sqlc.narg('before')::uuid IS NULL OR s.endpoint_id < sqlc.narg('before'))
  AND e.tenant_id = @tenant_id
  AND e.archived_at IS NULL
  AND (sqlc.narg('key')::text IS NULL OR e.key = sqlc.narg('key'))
  AND (sqlc.narg('name')::text IS NULL OR e.name = sqlc.narg('name'))
  AND (sqlc.narg('host')::text IS NULL OR e.host = sqlc.narg('host'))
  AND (sqlc.narg('name_like')::text IS NULL OR e.name LIKE sqlc.narg('name_like'))
  AND (sqlc.narg('labels')::jsonb IS NULL OR e.labels @> sqlc.narg('labels'))
ORDER BY s.endpoint_id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: ScheduleGetMany :many
-- Returns the schedules of endpoints in service.
SELECT *
FROM schedules
WHERE endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND NOT archived;

-- name: ScheduleListUnroutable :many
-- Returns since when no active worker serves the tags of endpoints, for those without one.
SELECT s.endpoint_id, t.unserved_since::timestamptz AS unserved_since
FROM schedules s
         JOIN tag_sets t ON t.id = s.tag_set_id
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND NOT s.archived
  AND s.tag_set_id <> 0
  AND t.unserved_since IS NOT NULL;

-- name: ScheduleInsert :exec
INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, version, lock_ms, tag_set_id, priority, attempt, source, failure_count)
VALUES (@endpoint_id, @tenant_id::uuid, @planned_at, @planned_at, @slot, 0, @version, @lock_ms, tag_set_number(@tags::jsonb), @priority, @attempt, @source, 0);

-- name: ScheduleReplan :execrows
-- Stores a new plan, revokes the claim and ends the run that the plan follows. For a running
-- endpoint ScheduleRecord is used instead.
UPDATE schedules
SET due_at = @planned_at, planned_at = @planned_at, slot = @slot, attempt = @attempt, infra_attempt = @infra_attempt, source = @source, version = @version,
    lock_ms = @lock_ms, tag_set_id = tag_set_number(@tags::jsonb), priority = @priority, failure_count = @failure_count, runs_done = @runs_done, ended_at = @ended_at,
    anchor = @anchor, last_slot = @last_slot, last_call_at = @last_call_at,
    paused_until = @paused_until, pause_reason = @pause_reason,
    manual_at = @manual_at, retry_after = @retry_after, target_next = @target_next, fresh_until = @fresh_until, accounted_until = @accounted_until, hinted = @hinted, claim_token = claim_token + 1, claimed_by = NULL, claimed_at = NULL,
    run_id = NULL, started_at = NULL, deadline_at = NULL, cancel_requested_at = NULL, cancel_requested_by = NULL, cancel_reason = NULL
WHERE endpoint_id = @endpoint_id;

-- name: ScheduleRecord :execrows
-- Records a change during a run, because the finish of the run replans. The new revision
-- invalidates the state that the start has read.
UPDATE schedules
SET version = @version, lock_ms = @lock_ms, tag_set_id = tag_set_number(@tags::jsonb), failure_count = @failure_count, paused_until = @paused_until,
    pause_reason = @pause_reason, manual_at = @manual_at, retry_after = @retry_after, target_next = @target_next, fresh_until = @fresh_until, accounted_until = @accounted_until,
    hinted = @hinted, revision = revision + 1
WHERE endpoint_id = @endpoint_id;

-- name: ScheduleDelete :exec
-- Deletes the schedule of an endpoint that goes out of service. The caller has locked the row.
-- While a run is in flight, the row stays until the end of the run, because finish, cancellation
-- and settlement refer to it.
WITH running AS (
    UPDATE schedules r SET archived = true, revision = r.revision + 1 WHERE r.endpoint_id = @endpoint_id AND r.run_id IS NOT NULL AND NOT r.archived
)
DELETE
FROM schedules s
WHERE s.endpoint_id = @endpoint_id AND s.run_id IS NULL;

-- name: ScheduleNotify :exec
-- Notifies workers at commit that an endpoint comes due at an instant, in Unix milliseconds.
SELECT pg_notify('rubato_due', sqlc.arg('due_ms')::bigint::text);

-- name: ScheduleWake :exec
-- Works like ScheduleNotify, in a transaction of its own after the commit of the change. It need
-- not be durable, because a worker that misses the notification polls.
SELECT set_config('synchronous_commit', 'off', true), pg_notify('rubato_due', sqlc.arg('due_ms')::bigint::text);

-- name: ScheduleSyncVersion :execrows
-- Sets the version of schedules to that of their endpoint, if an operator has raised the version by
-- hand. Otherwise no worker could find the configuration. The caller has locked the rows. The plan
-- stays until the next finish, which decides by the new configuration.
UPDATE schedules s
SET version = e.version, lock_ms = e.max_execution_time_ms + 5000, tag_set_id = tag_set_number(e.spec), claim_token = s.claim_token + 1, claimed_by = NULL, claimed_at = NULL,
    due_at = s.planned_at
FROM endpoints e
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND e.id = coalesce(s.owner_id, s.endpoint_id)
  AND e.version <> s.version
  AND s.run_id IS NULL;

-- name: ScheduleDetach :exec
-- Copies the run in flight of an endpoint into a row of its own. The caller has locked the row of
-- the endpoint, and replans it in the same transaction.
INSERT INTO schedules (endpoint_id, tenant_id, owner_id, due_at, planned_at, slot, claim_token, version, lock_ms, tag_set_id, attempt, infra_attempt, priority,
                       failure_count, source, claimed_by, claimed_at, run_id, started_at, deadline_at, cancel_requested_at, cancel_requested_by, cancel_reason)
SELECT sqlc.arg('item_id')::uuid, s.tenant_id, s.endpoint_id, s.due_at, s.planned_at, s.slot, s.claim_token, s.version, s.lock_ms, s.tag_set_id, s.attempt, s.infra_attempt, s.priority,
       0, s.source, s.claimed_by, s.claimed_at, s.run_id, s.started_at, s.deadline_at, s.cancel_requested_at, s.cancel_requested_by, s.cancel_reason
FROM schedules s
WHERE s.endpoint_id = sqlc.arg('endpoint_id')::uuid;

-- name: ScheduleLastRun :exec
-- Stores a detached run that has ended as the last run of its endpoint. The new revision
-- invalidates the state that a start has read.
UPDATE schedules
SET last_run_slot = @last_run_slot, last_attempt = @last_attempt, last_infra_attempt = @last_infra_attempt, last_status = @last_status,
    last_started_at = @last_started_at, last_finished_at = @last_finished_at, revision = revision + 1
WHERE endpoint_id = @endpoint_id;

-- name: ScheduleListDetached :many
-- Returns the rows of the detached runs of an endpoint, at most max_rows.
SELECT endpoint_id, run_id, claim_token, claimed_by
FROM schedules
WHERE owner_id = sqlc.arg('owner_id')::uuid
LIMIT sqlc.arg('max_rows')::int;

-- name: ScheduleWithdrawDetached :exec
-- Deletes the detached runs of an endpoint that wait for another attempt, because the endpoint was
-- paused or archived. Their attempts so far are in the history.
DELETE
FROM schedules
WHERE owner_id = sqlc.arg('owner_id')::uuid
  AND run_id IS NULL;

-- name: ScheduleArchiveDetached :exec
-- Marks the detached runs in flight of an archived endpoint, so that their finishes plan nothing.
UPDATE schedules
SET archived = true, revision = revision + 1
WHERE owner_id = sqlc.arg('owner_id')::uuid
  AND run_id IS NOT NULL
  AND NOT archived;

-- name: ScheduleSyncDetached :exec
-- Gives the detached runs of edited endpoints that wait for another attempt the version of the
-- configuration, and revokes their claims.
UPDATE schedules s
SET version = e.version, lock_ms = e.max_execution_time_ms + 5000, tag_set_id = tag_set_number(e.spec), claim_token = s.claim_token + 1, claimed_by = NULL, claimed_at = NULL,
    due_at = s.planned_at
FROM endpoints e
WHERE s.owner_id = ANY (sqlc.arg('owner_ids')::uuid[])
  AND e.id = s.owner_id
  AND e.version <> s.version
  AND s.run_id IS NULL;
