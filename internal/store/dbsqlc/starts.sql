-- name: SecretStartsShare :exec
-- Taken by each batch of starts with secrets, for their tenants: a change of a tenant's secrets waits for the commit of such starts. It is a
-- statement of its own before the versions are read, because a statement's snapshot is older than any lock it waits for. Ascending order.
SELECT pg_advisory_xact_lock_shared(hashtext('rubato.secrets'), hashtext(tenant::text))
FROM (SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant ORDER BY hashtext(unnest(sqlc.arg('tenant_ids')::uuid[])::text)) t;

-- name: SecretStartsExclude :exec
-- Taken by a change of a tenant's secrets: no start with its secrets is in flight while it is held.
SELECT pg_advisory_xact_lock(hashtext('rubato.secrets'), hashtext(sqlc.arg('tenant_id')::uuid::text));

-- name: ScheduleStart :many
-- Starts claims: the row's state becomes running. The row lock is the fence: READ COMMITTED evaluates the conditions again on the newest
-- version of a row that had to be waited for, so a start whose token a pause, an edit or another claim has raised is refused. A claim
-- that does not come back was revoked, has expired, or is more than 50 ms early because the clock was set back, and must not be sent. A
-- statement that executes after its deadline starts nothing. A start may be committed a little before its due time, so that the request
-- can leave at the due time itself; the run counts from there. The update is HOT: no indexed column changes, except that a start which is
-- late by more than 2 s extends its lock. Rows are addressed by their place, which the claim returned, because a lookup by key visits
-- every dead version of the row under an old snapshot. The rows that come back are what the finish decides by.
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
FROM (SELECT unnest(sqlc.arg('places')::tid[]) AS place,
             unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('execution_ms')::bigint[]) AS execution_ms) w
         CROSS JOIN clock
WHERE s.ctid = w.place
  AND (s.endpoint_id = w.endpoint_id) IS TRUE -- keeps the planner from walking the key
  AND s.claim_token = w.token
  AND (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE
  AND s.run_id IS NULL
  AND s.due_at > clock.now
  AND s.planned_at <= clock.now + interval '50 ms'
  AND clock.now <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
RETURNING s.*;

-- name: RunListOwnStarts :many
-- Which of these runs are running in the hands of this worker, under these tokens: for a worker that has lost the answer to a start.
SELECT s.endpoint_id, s.run_id::uuid AS run_id, s.tenant_id::uuid AS tenant_id, s.started_at::timestamptz AS started_at, s.due_at AS locked_until
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token) asked
         JOIN schedules s ON s.endpoint_id = ANY (ARRAY[asked.endpoint_id]) AND s.run_id = asked.run_id AND s.claim_token = asked.token
WHERE (s.claimed_by = sqlc.arg('worker_id')::uuid) IS TRUE;

-- name: RunConfirm :one
-- Whether a running run may still be sent whose request had to wait: it is its holder's, and nothing has come to be since that a start would
-- refuse. A pause withdraws a run now that was asked for before it, and none that is asked for after it.
SELECT EXISTS (
    SELECT
    FROM schedules s
             CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
    WHERE s.endpoint_id = @endpoint_id
      AND s.run_id = @run_id::uuid
      AND s.claim_token = @token
      AND s.due_at > clock.now
      AND NOT s.archived
      AND (s.paused_until IS NULL OR s.paused_until <= clock.now
        OR s.source = 'manual' AND EXISTS (SELECT FROM one_off_items o WHERE o.endpoint_id = s.endpoint_id AND o.slot = s.slot))
);

-- name: RunLastOf :many
-- What the runs that are starting may say of the ones before: the status and the end of the newest finished run of each endpoint, and
-- the status code of its answer. Its row is the newest of its endpoint in the part of its day, or close to it.
SELECT s.endpoint_id, coalesce(s.last_status, '')::text AS status, s.last_finished_at AS finished_at, coalesce(r.status_code, 0)::int AS status_code
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id) w
         CROSS JOIN LATERAL (SELECT f.endpoint_id, f.last_status, f.last_finished_at, f.last_slot, f.last_attempt, f.last_infra_attempt
                             FROM schedules f
                             WHERE f.endpoint_id = w.endpoint_id
                             OFFSET 0) s
         LEFT JOIN LATERAL (SELECT h.status_code
                            FROM runs h
                            WHERE h.endpoint_id = s.endpoint_id AND h.scheduled_for = s.last_slot AND h.attempt = s.last_attempt AND h.infra_attempt = s.last_infra_attempt
                            ORDER BY h.id DESC
                            LIMIT 1) r ON true;
