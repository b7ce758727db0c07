-- name: RunListFinished :many
-- Returns which of these runs an earlier try of the same finish has written, by run, token, worker
-- and outcome. A settlement of the run has another reason, so it does not match.
WITH done AS (
    SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
           unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
           unnest(sqlc.arg('scheduled_for')::timestamptz[]) AS scheduled_for,
           unnest(sqlc.arg('tokens')::bigint[]) AS token,
           unnest(sqlc.arg('statuses')::text[]) AS status,
           unnest(sqlc.arg('reasons')::text[]) AS reason
)
SELECT r.id, coalesce(r.next_source, '')::text AS next_source
FROM done
         JOIN runs r ON r.tenant_id = ANY (ARRAY[done.tenant_id]) AND r.id = ANY (ARRAY[done.run_id]) AND r.scheduled_for = done.scheduled_for
WHERE r.claim_token = done.token
  AND r.worker_id = sqlc.arg('worker_id')::uuid
  AND r.status = done.status
  AND r.reason_code = done.reason;

-- name: ScheduleListKept :many
-- Returns the claims that the finish of a run kept for its worker, if they are neither started nor
-- expired. Such a claim has the token after that of the run.
WITH done AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('tokens')::bigint[]) AS token
)
SELECT s.endpoint_id, s.owner_id, s.ctid, s.claim_token, s.slot, s.planned_at, s.attempt, s.infra_attempt, s.source, s.version, s.hinted, s.priority, s.due_at AS locked_until
FROM done
         JOIN schedules s ON s.endpoint_id = ANY (ARRAY[done.endpoint_id]) AND s.claim_token = done.token + 1
WHERE (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
  AND s.due_at > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
  AND s.run_id IS NULL;

-- name: ScheduleLock :many
-- Locks rows in the order of their keys, so that two batches cannot deadlock, and returns the
-- locked versions. If a row was locked by another transaction, its newest version is returned.
-- Related rows of an endpoint are read in later statements, because their snapshots see what the
-- other transaction committed.
SELECT *
FROM schedules
WHERE endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
ORDER BY endpoint_id
FOR UPDATE;

-- name: ScheduleFinish :many
-- Writes the decisions of the finishes and ends the runs. A row with a close next due time stays
-- with its worker under a new token: claimed_by and lock are set together. An instant of the year 1
-- stands for null. It is a compare-and-set: if a row was rewritten since it was read by the start
-- or by ScheduleLock, its ctid, token or revision differs, and the row is not returned. If the rows
-- are not locked, a run with instants outside the database's clock is not changed either, because
-- the clock of its worker drifts, and the statement fails unless it changes all rows.
WITH next AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
           unnest(sqlc.arg('planned_at')::timestamptz[]) AS planned_at,
           unnest(sqlc.arg('slot')::timestamptz[]) AS slot,
           unnest(sqlc.arg('attempt')::smallint[]) AS attempt,
           unnest(sqlc.arg('infra_attempt')::smallint[]) AS infra_attempt,
           unnest(sqlc.arg('source')::text[]) AS source,
           unnest(sqlc.arg('anchor')::timestamptz[]) AS anchor,
           unnest(sqlc.arg('failure_count')::int[]) AS failure_count,
           unnest(sqlc.arg('runs_done')::int[]) AS runs_done,
           unnest(sqlc.arg('ended_at')::timestamptz[]) AS ended_at,
           unnest(sqlc.arg('manual_at')::timestamptz[]) AS manual_at,
           unnest(sqlc.arg('retry_after')::timestamptz[]) AS retry_after,
           unnest(sqlc.arg('target_next')::timestamptz[]) AS target_next,
           unnest(sqlc.arg('fresh_until')::timestamptz[]) AS fresh_until,
           unnest(sqlc.arg('last_slot')::timestamptz[]) AS last_slot,
           unnest(sqlc.arg('last_run_slot')::timestamptz[]) AS last_run_slot,
           unnest(sqlc.arg('last_attempt')::smallint[]) AS last_attempt,
           unnest(sqlc.arg('last_infra_attempt')::smallint[]) AS last_infra_attempt,
           unnest(sqlc.arg('last_status')::text[]) AS last_status,
           unnest(sqlc.arg('last_started_at')::timestamptz[]) AS last_started_at,
           unnest(sqlc.arg('last_finished_at')::timestamptz[]) AS last_finished_at,
           unnest(sqlc.arg('last_call_at')::timestamptz[]) AS last_call_at,
           unnest(sqlc.arg('accounted_until')::timestamptz[]) AS accounted_until,
           unnest(sqlc.arg('tempo')::bytea[]) AS tempo,
           unnest(sqlc.arg('ctids')::tid[]) AS ctid,
           unnest(sqlc.arg('tokens')::bigint[]) AS token,
           unnest(sqlc.arg('revisions')::bigint[]) AS revision,
           unnest(sqlc.arg('hinted')::boolean[]) AS hinted,
           unnest(sqlc.arg('keep')::boolean[]) AS keep,
           unnest(sqlc.arg('priorities')::smallint[]) AS priority
), clock AS MATERIALIZED (
    SELECT sqlc.arg('now')::timestamptz AS now
), finished AS (
    UPDATE schedules s
    SET planned_at       = next.planned_at,
        slot             = next.slot,
        attempt          = next.attempt,
        infra_attempt    = next.infra_attempt,
        source           = next.source,
        anchor           = next.anchor,
        failure_count    = next.failure_count,
        runs_done        = next.runs_done,
        ended_at         = nullif(next.ended_at, '0001-01-01 00:00:00+00'),
        manual_at        = nullif(next.manual_at, '0001-01-01 00:00:00+00'),
        retry_after      = nullif(next.retry_after, '0001-01-01 00:00:00+00'),
        target_next      = nullif(next.target_next, '0001-01-01 00:00:00+00'),
        fresh_until      = nullif(next.fresh_until, '0001-01-01 00:00:00+00'),
        accounted_until  = next.accounted_until,
        last_slot        = next.last_slot,
        last_run_slot    = next.last_run_slot,
        last_attempt     = next.last_attempt,
        last_infra_attempt = next.last_infra_attempt,
        last_status      = next.last_status,
        last_started_at  = next.last_started_at,
        last_finished_at = next.last_finished_at,
        last_call_at     = nullif(next.last_call_at, '0001-01-01 00:00:00+00'),
        tempo            = next.tempo,
        hinted           = next.hinted,
        priority         = next.priority,
        run_id           = NULL,
        started_at       = NULL,
        deadline_at      = NULL,
        cancel_requested_at = NULL,
        cancel_requested_by = NULL,
        cancel_reason    = NULL,
        claim_token      = s.claim_token + 1,
        claimed_by       = CASE WHEN next.keep THEN sqlc.arg('worker_id')::uuid END,
        claimed_at       = CASE WHEN next.keep THEN clock.now END,
        due_at           = CASE WHEN next.keep
                                    THEN greatest(clock.now, next.planned_at) + least(s.lock_ms, sqlc.arg('lock_ttl_ms')::int) * interval '1 ms'
                                ELSE next.planned_at END
    FROM next, clock
    WHERE s.ctid = next.ctid
      AND (s.endpoint_id = next.endpoint_id) IS TRUE -- keeps the planner from walking the key
      AND s.claim_token = next.token
      AND s.revision = next.revision
      AND s.run_id IS NOT NULL
      AND NOT s.archived
      AND (sqlc.arg('locked')::boolean
        OR next.last_started_at >= s.started_at
               AND greatest(next.last_started_at, next.last_finished_at) <= coalesce(sqlc.narg('at')::timestamptz, clock_timestamp()))
    RETURNING s.endpoint_id, s.ctid, s.claim_token, s.due_at, s.claimed_by
)
SELECT f.endpoint_id, f.ctid, f.claim_token, f.due_at, f.claimed_by
FROM finished f
WHERE (SELECT sqlc.arg('locked')::boolean OR require_changed((SELECT count(*) FROM finished), cardinality(sqlc.arg('endpoint_ids')::uuid[])));

-- name: ScheduleDeleteArchived :exec
-- Deletes the rows of endpoints that were archived during the run that ends now. The caller has
-- locked the rows.
DELETE
FROM schedules s
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND s.archived;
