-- name: CallInsert :exec
-- Inserts calls. An instant of the year 1 and an empty text stand for null.
INSERT INTO calls (id, tenant_id, created_at, created_by, not_before, deadline_at, spec, callback_url, sent_key, due_for)
SELECT unnest(sqlc.arg('ids')::uuid[]),
       unnest(sqlc.arg('tenant_ids')::uuid[]),
       unnest(sqlc.arg('created_at')::timestamptz[]),
       unnest(sqlc.arg('created_by')::text[]),
       unnest(sqlc.arg('not_before')::timestamptz[]),
       nullif(unnest(sqlc.arg('deadline_at')::timestamptz[]), '0001-01-01 00:00:00+00'),
       unnest(sqlc.arg('specs')::text[])::jsonb,
       nullif(unnest(sqlc.arg('callback_urls')::text[]), ''),
       nullif(unnest(sqlc.arg('sent_keys')::text[]), ''),
       nullif(unnest(sqlc.arg('due_for')::timestamptz[]), '0001-01-01 00:00:00+00');

-- name: CallSchedule :exec
-- Inserts the schedules of new calls. Their IDs are those of endpoints elsewhere.
INSERT INTO schedules (endpoint_id, tenant_id, due_at, planned_at, slot, claim_token, version, lock_ms, priority, attempt, source, failure_count, call)
SELECT n.id, n.tenant_id, n.not_before, n.not_before, n.not_before, 0, 1, n.lock_ms, n.priority, 1, 'call', 0, true
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id,
             unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id,
             unnest(sqlc.arg('not_before')::timestamptz[]) AS not_before,
             unnest(sqlc.arg('lock_ms')::int[]) AS lock_ms,
             unnest(sqlc.arg('priorities')::smallint[]) AS priority) n;

-- name: CallKeyInsert :many
-- Reserves deduplication keys for calls, in the order of the arguments, and returns the keys that
-- were free. The caller gives each key once.
INSERT INTO call_keys AS k (tenant_id, key, call_id, expires_at)
SELECT n.tenant_id, n.key, n.call_id, clock.now + sqlc.arg('keep_ms')::bigint * interval '1 ms'
FROM (SELECT unnest(sqlc.arg('tenant_ids')::uuid[]) AS tenant_id, unnest(sqlc.arg('keys')::text[]) AS key,
             unnest(sqlc.arg('call_ids')::uuid[]) AS call_id) n
         CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
ORDER BY n.tenant_id, n.key
ON CONFLICT (tenant_id, key) DO UPDATE
    SET call_id = excluded.call_id, expires_at = excluded.expires_at
    WHERE k.expires_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
RETURNING k.call_id;

-- name: CallKeyGet :many
-- Returns the call of a deduplication key with its state, in the form of CallList.
SELECT c.id, c.created_at, c.created_by, c.not_before, c.deadline_at, c.spec, c.callback_url, c.sent_key, c.due_for,
       (s.endpoint_id IS NOT NULL)::boolean AS open, s.run_id, coalesce(r.id, '00000000-0000-0000-0000-000000000000')::uuid AS last_id, coalesce(r.status, '')::text AS last_status
FROM call_keys k
         JOIN calls c ON c.id = k.call_id
         LEFT JOIN schedules s ON s.endpoint_id = c.id
         LEFT JOIN LATERAL (SELECT h.id, h.status
                            FROM runs h
                            WHERE h.endpoint_id = c.id
                              AND h.scheduled_for >= CASE WHEN s.endpoint_id IS NULL THEN c.created_at - interval '1 minute' ELSE c.not_before END
                              AND h.scheduled_for <= c.not_before
                            ORDER BY h.attempt + h.infra_attempt DESC
                            LIMIT 1) r ON true
WHERE k.tenant_id = @tenant_id AND k.key = @key;

-- name: CallKeySweep :execrows
-- Deletes expired deduplication keys, at most max_rows.
DELETE FROM call_keys
WHERE (tenant_id, key) IN (SELECT k.tenant_id, k.key
                           FROM call_keys k
                           WHERE k.expires_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
                           ORDER BY k.expires_at
                           LIMIT sqlc.arg('max_rows')
                           FOR UPDATE SKIP LOCKED);

-- name: CallGetMany :many
SELECT *
FROM calls
WHERE id = ANY (sqlc.arg('ids')::uuid[]);

-- name: CallEnd :many
-- Deletes the rows of calls and detached runs that have had their last attempt, in the transaction
-- that records it, and wakes the chains of these calls. It is a compare-and-set like
-- ScheduleFinish, and fails like it.
WITH ended AS (
    SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
           unnest(sqlc.arg('ctids')::tid[]) AS ctid,
           unnest(sqlc.arg('tokens')::bigint[]) AS token,
           unnest(sqlc.arg('revisions')::bigint[]) AS revision,
           unnest(sqlc.arg('started_at')::timestamptz[]) AS started_at,
           unnest(sqlc.arg('finished_at')::timestamptz[]) AS finished_at
), woken AS (
    UPDATE chain_items i SET woken = true FROM ended WHERE i.endpoint_id = ended.endpoint_id AND NOT i.settled
), gone AS (
    DELETE
    FROM schedules s
        USING ended
    WHERE s.ctid = ended.ctid
      AND (s.endpoint_id = ended.endpoint_id) IS TRUE -- keeps the planner from walking the key
      AND s.claim_token = ended.token
      AND s.revision = ended.revision
      AND s.run_id IS NOT NULL
      AND (s.call OR s.owner_id IS NOT NULL)
      AND (sqlc.arg('locked')::boolean
        OR ended.started_at >= s.started_at
               AND greatest(ended.started_at, ended.finished_at) <= coalesce(sqlc.narg('at')::timestamptz, clock_timestamp()))
    RETURNING s.endpoint_id
)
SELECT gone.endpoint_id
FROM gone
WHERE (SELECT sqlc.arg('locked')::boolean OR require_changed((SELECT count(*) FROM gone), cardinality(sqlc.arg('endpoint_ids')::uuid[])));

-- name: CallDropBefore :execrows
-- Deletes calls that were created before an instant and have ended, at most max_rows.
DELETE
FROM calls
WHERE id IN (SELECT c.id
             FROM calls c
             WHERE c.created_at < sqlc.arg('before')::timestamptz AND NOT EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = c.id)
             ORDER BY c.id
             LIMIT sqlc.arg('max_rows')::int);

-- name: CallList :many
-- Returns calls with their state, newest first: the run in flight, or else the newest run that has
-- ended. open means that the call has not ended. All attempts have the due time not_before. A call
-- that was canceled earlier has its only run at the instant of the cancel, so the runs of an ended
-- call are searched from its creation on, a minute before in case the clock was set back.
SELECT c.id, c.created_at, c.created_by, c.not_before, c.deadline_at, c.spec, c.callback_url, c.sent_key, c.due_for,
       (s.endpoint_id IS NOT NULL)::boolean AS open, s.run_id, coalesce(r.id, '00000000-0000-0000-0000-000000000000')::uuid AS last_id, coalesce(r.status, '')::text AS last_status
FROM calls c
         LEFT JOIN schedules s ON s.endpoint_id = c.id
         LEFT JOIN LATERAL (SELECT h.id, h.status
                            FROM runs h
                            WHERE h.endpoint_id = c.id
                              AND h.scheduled_for >= CASE WHEN s.endpoint_id IS NULL THEN c.created_at - interval '1 minute' ELSE c.not_before END
                              AND h.scheduled_for <= c.not_before
                            ORDER BY h.attempt + h.infra_attempt DESC
                            LIMIT 1) r ON true
WHERE c.tenant_id = @tenant_id
  AND (sqlc.narg('id')::uuid IS NULL OR c.id = sqlc.narg('id'))
  AND (sqlc.narg('before')::uuid IS NULL OR c.id < sqlc.narg('before'))
  AND (NOT sqlc.arg('open')::boolean OR s.endpoint_id IS NOT NULL)
ORDER BY c.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: CallCountOpen :one
-- Counts the calls of a tenant that have not ended, at most max_rows.
SELECT count(*)::bigint AS open
FROM (SELECT FROM schedules s WHERE s.tenant_id = @tenant_id AND s.call LIMIT sqlc.arg('max_rows')::int) o;
