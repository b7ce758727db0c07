-- name: ValidatorGetMany :many
SELECT endpoint_id, request, etag, last_modified
FROM validators
WHERE endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[]);

-- name: ValidatorPut :exec
-- Stores the validators of the last responses. The finishes of these runs hold the row locks of the
-- schedules, so writes to one row are serialised.
INSERT INTO validators (endpoint_id, request, etag, last_modified, updated_at)
SELECT v.endpoint_id, v.request, v.etag, v.last_modified, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
             unnest(sqlc.arg('requests')::bigint[]) AS request,
             unnest(sqlc.arg('etags')::text[]) AS etag,
             unnest(sqlc.arg('last_modified')::text[]) AS last_modified) v
ORDER BY v.endpoint_id
ON CONFLICT (endpoint_id) DO UPDATE
    SET request = excluded.request, etag = excluded.etag, last_modified = excluded.last_modified, updated_at = excluded.updated_at;
