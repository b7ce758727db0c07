-- name: EventInsertMany :exec
-- Tells those who watch, once the transaction has committed.
INSERT INTO events (tenant_id, endpoint_id, at, kind, detail)
SELECT unnest(sqlc.arg('tenant_ids')::uuid[]), unnest(sqlc.arg('endpoint_ids')::uuid[]), unnest(sqlc.arg('at')::timestamptz[]),
       unnest(sqlc.arg('kinds')::text[]), unnest(sqlc.arg('details')::text[])::jsonb;

-- name: EventHead :one
-- What the snapshot of this transaction has seen to the end: every transaction below until is over, and none above last has begun.
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS until, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS last,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now;

-- name: EventList :many
-- Changes between a place and the head, in the order of commits as far as they can be told apart.
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

-- name: RunNews :many
-- Runs that finished between a place and the head.
SELECT *
FROM runs
WHERE tenant_id = @tenant_id
  AND status <> 'skipped' -- What passed without a run is no run.
  AND txid >= sqlc.arg('after_txid')::bigint
  AND (txid > sqlc.arg('after_txid')::bigint OR id > sqlc.arg('after_id')::uuid)
  AND txid < sqlc.arg('until')::bigint
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
ORDER BY txid, id
LIMIT sqlc.arg('max_rows')::int;

-- name: EventDropBefore :execrows
-- Forgets what nobody may resume from any more, the oldest first and a bounded number of rows at a time.
DELETE
FROM events
WHERE id IN (SELECT e.id FROM events e WHERE e.at < sqlc.arg('before')::timestamptz ORDER BY e.id LIMIT 10000);
