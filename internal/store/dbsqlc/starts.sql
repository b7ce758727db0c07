-- name: SecretsAdvisoryLockShared :exec
-- Takes the shared lock of each tenant for a batch of starts with secrets, so that a change of a
-- tenant's secrets waits for the commit of such starts. It is a statement of its own before the
-- versions are read, because the snapshot of a statement is older than a lock that the statement
-- waits for. Locks are taken in ascending order to avoid deadlocks.
SELECT pg_advisory_xact_lock_shared(hashtext('rubato.secrets'), hashtext(tenant::text))
FROM (SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant ORDER BY hashtext(unnest(sqlc.arg('tenant_ids')::uuid[])::text)) t;

-- name: SecretsAdvisoryLock :exec
-- Takes the exclusive lock for a change of a tenant's secrets. No start with secrets of the tenant
-- is in flight while it is held.
SELECT pg_advisory_xact_lock(hashtext('rubato.secrets'), hashtext(sqlc.arg('tenant_id')::uuid::text));

-- name: ScheduleStart :many
-- Starts claims: the state of the row becomes running. The row lock is the fence. READ COMMITTED
-- evaluates the conditions again on the newest version of a row that it waited for. Therefore a
-- start is refused if a pause, an edit or another claim has raised the token. A claim that is not
-- returned was revoked, has expired, or is more than 50 ms early because the clock was set back; it
-- must not be sent. If the statement executes after its deadline, it starts no claim. A start may
-- commit shortly before its due time, so that the request leaves exactly at it; the run counts from
-- the due time. The update is HOT: it changes no indexed column, except that a start more than 2 s
-- late extends its lock. Rows are addressed by the ctid that the claim returned, because under an
-- old snapshot a lookup by key visits every dead version of the row. The returned rows are the
-- input of the finish.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
UPDATE schedules s
SET run_id      = w.run_id,
    started_at  = greatest(clock.now, s.planned_at),
    deadline_at = greatest(clock.now, s.planned_at) + w.execution_ms * interval '1 ms',
    due_at      = CASE WHEN s.due_at < greatest(clock.now, s.planned_at) + (least(w.execution_ms + 5000, sqlc.arg('lock_ttl_ms')::bigint) - 2000) * interval '1 ms'
                           THEN greatest(clock.now, s.planned_at) + least(w.execution_ms + 5000, sqlc.arg('lock_ttl_ms')::bigint) * interval '1 ms'
                       ELSE s.due_at END
FROM (SELECT unnest(sqlc.arg('ctids')::tid[]) AS ctid,
             unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('execution_ms')::bigint[]) AS execution_ms) w
         CROSS JOIN clock
WHERE s.ctid = w.ctid
  AND (s.endpoint_id = w.endpoint_id) IS TRUE -- keeps the planner from walking the key
  AND s.claim_token = w.token
  AND (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
  AND s.run_id IS NULL
  AND s.due_at > clock.now
  AND s.planned_at <= clock.now + interval '50 ms'
  AND clock.now <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
RETURNING s.*;

-- name: RunListStarted :many
-- Returns which of these runs are running under this worker and these tokens. A worker needs it if
-- it lost the response to a start.
SELECT s.endpoint_id, s.run_id::uuid AS run_id, s.tenant_id::uuid AS tenant_id, s.started_at::timestamptz AS started_at, s.due_at AS locked_until
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token) asked
         JOIN schedules s ON s.endpoint_id = ANY (ARRAY[asked.endpoint_id]) AND s.run_id = asked.run_id AND s.claim_token = asked.token
WHERE (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE;

-- name: RunConfirm :one
-- Reports whether a delayed request of a running run may still be sent: its worker still holds the
-- lock, and no change since the start would refuse a start now. A pause withdraws the one-off runs
-- that were requested before it, but not later ones.
SELECT EXISTS (
    SELECT
    FROM schedules s
             CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
    WHERE s.endpoint_id = @endpoint_id
      AND s.run_id = @run_id::uuid
      AND s.claim_token = @token
      AND s.due_at > clock.now
      AND NOT s.archived
      AND NOT EXISTS (SELECT FROM schedules owner WHERE owner.endpoint_id = ANY (ARRAY[s.owner_id]) AND owner.paused_until > clock.now)
      AND (s.paused_until IS NULL OR s.paused_until <= clock.now
        OR s.source = 'manual' AND EXISTS (SELECT FROM one_off_items o WHERE o.endpoint_id = s.endpoint_id AND o.slot = s.slot))
);

-- name: RunLast :many
-- Returns status and end of the newest finished run of each endpoint, with the status code of its
-- response, for request templates. The row is the newest one of its endpoint in the partition of
-- its day, or close to it.
SELECT s.endpoint_id, coalesce(s.last_status, '')::text AS status, s.last_finished_at AS finished_at, coalesce(r.status_code, 0)::int AS status_code
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id) w
         CROSS JOIN LATERAL (SELECT f.endpoint_id, f.last_status, f.last_finished_at, f.last_run_slot, f.last_attempt, f.last_infra_attempt
                             FROM schedules f
                             WHERE f.endpoint_id = w.endpoint_id
                             OFFSET 0) s
         LEFT JOIN LATERAL (SELECT h.status_code
                            FROM runs h
                            WHERE h.endpoint_id = s.endpoint_id AND h.scheduled_for = s.last_run_slot AND h.attempt = s.last_attempt AND h.infra_attempt = s.last_infra_attempt
                            ORDER BY h.id DESC
                            LIMIT 1) r ON true;
