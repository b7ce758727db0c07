-- name: StartsShare :exec
-- Taken by every batch of starts, for the shards of its endpoints; see shards.go. It must be a statement of its own before the start: a
-- statement's snapshot is older than any lock that it waits for. The shards come in ascending order, each once, and are taken in it.
SELECT pg_advisory_xact_lock_shared(hashtext('rubato.starts'), shard)
FROM unnest(sqlc.arg('shards')::int[]) AS shard;

-- name: StartsExclude :exec
-- Taken by whatever replans endpoints outside a finish, for their shards: no batch with one of them is in flight while it is held. In the
-- same order.
SELECT pg_advisory_xact_lock(hashtext('rubato.starts'), shard)
FROM unnest(sqlc.arg('shards')::int[]) AS shard;

-- name: LiveRunStart :many
-- Starts claims whose time has come: a live row for each one whose token is unchanged, whose lock is not over, and which is due up to
-- 50 ms from now, whatever the worker takes the time to be. What does not come back was revoked, has a live run, or is early by a clock
-- that was set back, and must not be sent. Carried out after its time, it starts nothing: no request would leave so long after it was asked for. A start may be committed a little before its due time, so that the request can leave at the
-- due time itself; the run counts from there. The rows are looked up one by one, by their key: a planner that takes few rows to be
-- claimed would otherwise read all that are, once for each start.
WITH clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
)
INSERT INTO live_runs (endpoint_id, run_id, tenant_id, slot, attempt, source, claim_token, worker_id, claimed_at, started_at,
                       deadline_at, locked_until)
SELECT s.endpoint_id, w.run_id, w.tenant_id, s.slot, s.attempt, s.source, s.claim_token, s.claimed_by, s.claimed_at,
       greatest(clock.now, s.planned_at),
       greatest(clock.now, s.planned_at) + w.execution_ms * interval '1 ms',
       greatest(clock.now, s.planned_at) + least(w.execution_ms + 5000, sqlc.arg('lock_ttl_ms')::bigint) * interval '1 ms'
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('execution_ms')::bigint[]) AS execution_ms) w
         CROSS JOIN clock
         CROSS JOIN LATERAL (SELECT f.endpoint_id, f.planned_at, f.slot, f.attempt, f.source, f.claim_token, f.claimed_by, f.claimed_at, f.due_at
                             FROM schedules f
                             WHERE f.endpoint_id = w.endpoint_id
                             OFFSET 0) s
WHERE s.claim_token = w.token
  AND s.claimed_by = sqlc.arg('worker_id')::uuid
  AND s.due_at > clock.now
  AND s.planned_at <= clock.now + interval '50 ms'
  AND clock.now <= coalesce(sqlc.narg('until')::timestamptz, 'infinity'::timestamptz)
ON CONFLICT DO NOTHING
RETURNING endpoint_id, run_id, tenant_id, started_at, locked_until;

-- name: LiveRunListOwn :many
-- Which of these runs are live in the hands of this worker, under these tokens: for a worker that has not heard what became of their
-- start.
SELECT l.endpoint_id, l.run_id, l.tenant_id, l.started_at, l.locked_until
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
             unnest(sqlc.arg('tokens')::bigint[]) AS token) asked
         JOIN live_runs l ON l.endpoint_id = ANY (ARRAY[asked.endpoint_id]) AND l.run_id = asked.run_id AND l.claim_token = asked.token
WHERE l.worker_id = sqlc.arg('worker_id')::uuid;

-- name: LiveRunConfirm :one
-- Whether a live run may still be sent whose request had to wait: it is its holder's, and what a start would refuse has not come to be
-- since. A pause takes back what somebody had asked for before it, and nothing that they ask for after it.
SELECT EXISTS (
    SELECT
    FROM live_runs l
             JOIN schedules s ON s.endpoint_id = l.endpoint_id
             CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
    WHERE l.endpoint_id = @endpoint_id
      AND l.run_id = @run_id
      AND l.claim_token = @token
      AND l.locked_until > clock.now
      AND (s.paused_until IS NULL OR s.paused_until <= clock.now OR (l.source = 'manual' AND s.manual_at IS NOT NULL))
);

-- name: LiveRunTakeBack :many
-- Takes back starts whose token has changed after all. An insert that waits for the end of an earlier live run of its endpoint goes
-- on with the snapshot from before that run's finish; only a later statement sees the token that the finish has raised. The token of
-- a run that is under way never changes, so only what was just started can be found here. Nearly always nothing is: live rows are looked up
-- for tokens that have changed alone.
DELETE
FROM live_runs l
WHERE l.endpoint_id = ANY (ARRAY(
    SELECT w.endpoint_id
    FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
                 unnest(sqlc.arg('run_ids')::uuid[]) AS run_id,
                 unnest(sqlc.arg('tokens')::bigint[]) AS token) w
             CROSS JOIN LATERAL (SELECT f.endpoint_id FROM schedules f WHERE f.endpoint_id = w.endpoint_id AND f.claim_token <> w.token OFFSET 0) s
             CROSS JOIN LATERAL (SELECT f.run_id, f.claim_token, f.worker_id FROM live_runs f WHERE f.endpoint_id = s.endpoint_id OFFSET 0) live
    WHERE live.run_id = w.run_id
      AND live.claim_token = w.token
      AND live.worker_id = sqlc.arg('worker_id')::uuid))
RETURNING l.run_id;

-- name: RunLastOf :many
-- What the runs that are starting may say of the ones before: the status and the end of the newest finished run of each endpoint, and
-- the status code of its answer. Its row is the newest of its endpoint in the part of its day, or close to it.
SELECT s.endpoint_id, coalesce(s.last_status, '')::text AS status, s.last_finished_at AS finished_at, coalesce(r.status_code, 0)::int AS status_code
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id) w
         CROSS JOIN LATERAL (SELECT f.endpoint_id, f.last_status, f.last_finished_at, f.last_slot, f.last_attempt
                             FROM schedules f
                             WHERE f.endpoint_id = w.endpoint_id
                             OFFSET 0) s
         LEFT JOIN LATERAL (SELECT h.status_code
                            FROM runs h
                            WHERE h.endpoint_id = s.endpoint_id AND h.scheduled_for = s.last_slot AND h.attempt = s.last_attempt
                            ORDER BY h.id DESC
                            LIMIT 1) r ON true;
