-- name: NoiseWatchGetMany :many
-- Returns the state of the search for noise, with the paths that were found and those that a person
-- rejected. Every path has such a state.
SELECT w.endpoint_id, w.state,
       ARRAY(SELECT n.path FROM noise n WHERE n.endpoint_id = w.endpoint_id AND n.rejected_at IS NULL ORDER BY n.path)::text[] AS found,
       ARRAY(SELECT n.path FROM noise n WHERE n.endpoint_id = w.endpoint_id AND n.rejected_at IS NOT NULL ORDER BY n.path)::text[] AS rejected
FROM noise_watches w
WHERE w.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[]);

-- name: NoiseWatchPut :exec
-- Stores the states after the last answers. The finishes of these runs hold the row locks of the
-- schedules, so writes to one row are serialised.
INSERT INTO noise_watches (endpoint_id, state, updated_at)
SELECT w.endpoint_id, w.state, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('states')::bytea[]) AS state) w
ORDER BY w.endpoint_id
ON CONFLICT (endpoint_id) DO UPDATE
    SET state = excluded.state, updated_at = excluded.updated_at;

-- name: NoiseInsert :exec
-- Stores the noise that was found. A finding that a person rejected stays rejected.
INSERT INTO noise (endpoint_id, path, pairs, gap_ms, found_at)
SELECT n.endpoint_id, n.path, n.pairs, n.gap_ms, coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[])  AS endpoint_id,
             unnest(sqlc.arg('paths')::text[])         AS path,
             unnest(sqlc.arg('pairs')::smallint[])     AS pairs,
             unnest(sqlc.arg('gaps_ms')::bigint[])     AS gap_ms) n
ORDER BY n.endpoint_id, n.path
ON CONFLICT (endpoint_id, path) DO NOTHING;

-- name: NoiseList :many
-- Returns the noise that was found in the answers of an endpoint of a tenant, by path.
SELECT n.path, n.pairs, n.gap_ms, n.found_at, n.rejected_at, n.rejected_by
FROM noise n
         JOIN endpoints e ON e.id = n.endpoint_id
WHERE n.endpoint_id = @endpoint_id
  AND e.tenant_id = @tenant_id
ORDER BY n.path;

-- name: NoiseJudge :exec
-- Rejects a finding, or restores it if rejected_by is null. A finding that is in that state already
-- stays as it is. The caller has locked the schedule of the endpoint.
UPDATE noise
SET rejected_by = sqlc.narg('rejected_by')::text,
    rejected_at = CASE WHEN sqlc.narg('rejected_by')::text IS NOT NULL THEN @now::timestamptz END
WHERE endpoint_id = @endpoint_id
  AND path = @path
  AND (rejected_by IS NULL) <> (sqlc.narg('rejected_by')::text IS NULL);
