-- name: OneOffGetMany :many
-- Returns the one-off items of endpoints that a decision needs: the item in flight and the next
-- one. Items that have to wait for their next attempt come after items that can start. Each row has
-- the number of all items of its endpoint and their newest slot.
SELECT o.endpoint_id, o.slot, o.not_before, o.attempt, o.infra_attempt, o.priority, o.deadline_at, o.undo, o.own, o.items, o.last_slot
FROM (SELECT i.*,
             (s.run_id IS NOT NULL AND s.source = 'manual' AND s.slot = i.slot)::boolean AS own,
             count(*) OVER (PARTITION BY i.endpoint_id)::int AS items,
             (max(i.slot) OVER (PARTITION BY i.endpoint_id))::timestamptz AS last_slot,
             row_number() OVER (PARTITION BY i.endpoint_id
                 ORDER BY (s.run_id IS NOT NULL AND s.source = 'manual' AND s.slot = i.slot) DESC,
                          greatest(i.not_before, clock.now), i.priority DESC, i.slot) AS turn
      FROM one_off_items i
               JOIN schedules s ON s.endpoint_id = i.endpoint_id
               CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + interval '1 ms' AS now) clock
      WHERE i.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])) o
WHERE o.turn <= 2
ORDER BY o.endpoint_id, o.turn;

-- name: OneOffListWaiting :many
-- Returns the waiting one-off runs of a tenant, newest first. The run in flight is a live run and
-- not returned.
SELECT i.run_id, i.endpoint_id, i.tenant_id, i.slot, i.not_before, i.attempt, i.infra_attempt
FROM one_off_items i
WHERE i.tenant_id = @tenant_id
  AND (sqlc.narg('run_id')::uuid IS NULL OR i.run_id = sqlc.narg('run_id'))
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR i.endpoint_id = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('before')::uuid IS NULL OR i.run_id < sqlc.narg('before'))
  AND (sqlc.narg('from_at')::timestamptz IS NULL OR i.slot >= sqlc.narg('from_at'))
  AND (sqlc.narg('to_at')::timestamptz IS NULL OR i.slot < sqlc.narg('to_at'))
  AND NOT EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = i.endpoint_id AND s.run_id = i.run_id)
ORDER BY i.run_id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: OneOffGetRequests :many
-- Returns the requests of claimed one-off items, by endpoint and slot.
SELECT i.endpoint_id, i.slot, i.deadline_at, i.force, i.request
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('slots')::timestamptz[]) AS slot) w
         JOIN one_off_items i ON i.endpoint_id = ANY (ARRAY[w.endpoint_id]) AND i.slot = w.slot;

-- name: OneOffInsert :exec
INSERT INTO one_off_items (endpoint_id, slot, tenant_id, run_id, not_before, attempt, priority, deadline_at, force, request, requested_by)
VALUES (@endpoint_id, @slot, @tenant_id, @run_id, @not_before, 1, @priority, @deadline_at, @force, @request, @requested_by);

-- name: RunRequestInsert :exec
-- Records the parts of a one-off run's request that replace those of the endpoint, and the run that
-- it repeats.
INSERT INTO run_requests (endpoint_id, scheduled_for, tenant_id, request, rerun_of)
VALUES (@endpoint_id, @scheduled_for, @tenant_id, @request, @rerun_of);

-- name: RunRequestGet :one
-- Returns the origin of a run's request: the configuration in force at an instant, and the parts
-- that replace it. version is 0 if the configuration is no longer kept. The configuration of a call
-- has the version 1.
SELECT coalesce(v.version, CASE WHEN c.id IS NULL THEN 0 ELSE 1 END)::bigint AS version, coalesce(v.spec, c.spec) AS spec, q.request, q.rerun_of, c.sent_key, c.due_for
FROM (SELECT @endpoint_id::uuid AS endpoint_id, @tenant_id::uuid AS tenant_id) asked
         LEFT JOIN LATERAL (SELECT e.version, e.spec
                            FROM endpoint_versions e
                            WHERE e.endpoint_id = asked.endpoint_id AND (e.tenant_id = asked.tenant_id) IS TRUE AND e.changed_at <= sqlc.arg('at')::timestamptz
                            ORDER BY e.version DESC
                            LIMIT 1) v ON true
         LEFT JOIN calls c ON c.id = asked.endpoint_id AND c.tenant_id = asked.tenant_id
         LEFT JOIN run_requests q ON q.endpoint_id = asked.endpoint_id AND q.tenant_id = asked.tenant_id AND q.scheduled_for = sqlc.arg('scheduled_for')::timestamptz;

-- name: OneOffRequeue :exec
-- Puts an item back into the queue for its next attempt. It affects no row if the item was
-- withdrawn during its run. A forced item was forced for one attempt.
UPDATE one_off_items
SET run_id = @run_id, not_before = @not_before, attempt = @attempt, infra_attempt = @infra_attempt, force = false
WHERE endpoint_id = @endpoint_id AND slot = @slot;

-- name: OneOffDelete :exec
DELETE
FROM one_off_items
WHERE endpoint_id = @endpoint_id AND slot = @slot;

-- name: OneOffWithdraw :many
-- Deletes the items of an endpoint and returns them. own marks the item in flight.
DELETE
FROM one_off_items i
WHERE i.endpoint_id = @endpoint_id
RETURNING i.slot, i.attempt, i.infra_attempt, i.requested_by,
    EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = i.endpoint_id AND s.run_id IS NOT NULL AND s.source = 'manual' AND s.slot = i.slot) AS own;

-- name: OneOffKeyGet :many
-- Returns the run of an idempotency key.
SELECT k.slot, k.fingerprint
FROM one_off_keys k
         JOIN endpoints e ON e.id = k.endpoint_id AND e.tenant_id = @tenant_id
WHERE k.endpoint_id = @endpoint_id
  AND k.key = @key
  AND k.expires_at > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp());

-- name: OneOffKeyInsert :execrows
-- Reserves an idempotency key for a run. It affects no row if another run has the key.
INSERT INTO one_off_keys AS k (endpoint_id, key, slot, fingerprint, expires_at)
SELECT @endpoint_id, @key, @slot, @fingerprint, clock.now + sqlc.arg('keep_ms')::bigint * interval '1 ms'
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (endpoint_id, key) DO UPDATE
    SET slot = excluded.slot, fingerprint = excluded.fingerprint, expires_at = excluded.expires_at
    WHERE k.expires_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp());

-- name: OneOffKeySweep :execrows
-- Deletes expired idempotency keys, at most max_rows.
DELETE FROM one_off_keys
WHERE (endpoint_id, key) IN (SELECT k.endpoint_id, k.key
                             FROM one_off_keys k
                             WHERE k.expires_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
                             ORDER BY k.expires_at
                             LIMIT sqlc.arg('max_rows')
                             FOR UPDATE SKIP LOCKED);
