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

-- name: RunNewsList :many
-- Names of runs that finished, from a place to the head. A row may have been told in part.
SELECT id, txid, at, run_ids, endpoint_ids
FROM run_news
WHERE tenant_id = @tenant_id
  AND (txid, id) >= (sqlc.arg('after_txid')::bigint, sqlc.arg('after_id')::bigint)
  AND txid < sqlc.arg('until')::bigint
ORDER BY txid, id
LIMIT sqlc.arg('max_rows')::int;

-- name: RunFind :many
-- Runs of the history by their names, in no order. An ID carries its due time, so each is looked for on its day alone.
SELECT r.*
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('scheduled_for')::timestamptz[]) AS scheduled_for) n
JOIN runs r ON r.id = n.id AND r.scheduled_for = n.scheduled_for
WHERE r.tenant_id = @tenant_id;

-- name: EventDropBefore :execrows
-- Forgets what nobody may resume from any more, out of the oldest rows, a bounded number of them at a time.
DELETE
FROM events
WHERE id IN (SELECT oldest.id
             FROM (SELECT e.id, e.at FROM events e ORDER BY e.id LIMIT 10000) oldest
             WHERE oldest.at < sqlc.arg('before')::timestamptz);

-- name: RunNewsDropBefore :execrows
-- The same of runs.
DELETE
FROM run_news
WHERE id IN (SELECT oldest.id
             FROM (SELECT w.id, w.at FROM run_news w ORDER BY w.id LIMIT 10000) oldest
             WHERE oldest.at < sqlc.arg('before')::timestamptz);
