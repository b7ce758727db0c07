-- name: EventInsertMany :exec
-- Inserts events. Readers of the feed see them after the commit.
INSERT INTO events (tenant_id, endpoint_id, at, kind, detail)
SELECT unnest(sqlc.arg('tenant_ids')::uuid[]), unnest(sqlc.arg('endpoint_ids')::uuid[]), unnest(sqlc.arg('at')::timestamptz[]),
       unnest(sqlc.arg('kinds')::text[]), unnest(sqlc.arg('details')::text[])::jsonb;

-- name: EventHead :one
-- Returns the head of the feed by the snapshot of this transaction. Every transaction below until
-- has ended, and none above last has begun.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS until, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS last,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;

-- name: EventList :many
-- Returns the events between a position and the head, in the order of commits as far as it is
-- known.
SELECT id, txid, endpoint_id, at, kind, detail
FROM events
WHERE tenant_id = @tenant_id
  AND txid >= sqlc.arg('after_txid')::bigint
  AND (txid > sqlc.arg('after_txid')::bigint OR id > sqlc.arg('after_id')::bigint)
  AND txid < sqlc.arg('until')::bigint
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND kind = ANY (sqlc.arg('kinds')::text[])
ORDER BY txid, id
LIMIT sqlc.arg('max_rows')::int;

-- name: FinishedRunsList :many
-- Returns finished runs from a position to the head. The first row may have been delivered in part.
SELECT id, txid, at, run_ids, endpoint_ids
FROM finished_runs
WHERE tenant_id = @tenant_id
  AND (txid, id) >= (sqlc.arg('after_txid')::bigint, sqlc.arg('after_id')::bigint)
  AND txid < sqlc.arg('until')::bigint
ORDER BY txid, id
LIMIT sqlc.arg('max_rows')::int;

-- name: RunFind :many
-- Returns runs of the history by ID, unordered. A run ID contains its due time, so each lookup
-- reads one partition.
SELECT r.*
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('scheduled_for')::timestamptz[]) AS scheduled_for) n
JOIN runs r ON r.id = n.id AND r.scheduled_for = n.scheduled_for
WHERE r.tenant_id = @tenant_id;

-- name: EventDropBefore :execrows
-- Deletes events before an instant, because no reader may resume from them any more. It reads the
-- oldest 10000 rows per call.
DELETE
FROM events
WHERE id IN (SELECT oldest.id
             FROM (SELECT e.id, e.at FROM events e ORDER BY e.id LIMIT 10000) oldest
             WHERE oldest.at < sqlc.arg('before')::timestamptz);

-- name: FinishedRunsDropBefore :execrows
-- Works like EventDropBefore for finished runs.
DELETE
FROM finished_runs
WHERE id IN (SELECT oldest.id
             FROM (SELECT w.id, w.at FROM finished_runs w ORDER BY w.id LIMIT 10000) oldest
             WHERE oldest.at < sqlc.arg('before')::timestamptz);
