-- name: HostInsert :exec
-- Inserts closed hosts that have no row yet, in the order of their keys, so that two workers cannot
-- deadlock. It looks for the row first, because a conflict costs far more and nearly all hosts have
-- one.
INSERT INTO hosts (scope, host, state, failures, openings, successes, since, seat_endpoints, seat_tokens, updated_at)
SELECT w.scope, w.host, 'closed', 0, 0, 0, @now, '{}', '{}', @now
FROM (SELECT unnest(sqlc.arg('scopes')::uuid[]) AS scope, unnest(sqlc.arg('hosts')::text[]) AS host) w
WHERE NOT EXISTS (SELECT FROM hosts h WHERE h.scope = w.scope AND h.host = w.host)
ORDER BY w.scope, w.host
ON CONFLICT (scope, host) DO NOTHING;

-- name: HostLock :many
-- Locks hosts in the order of their keys, so that two workers cannot deadlock.
SELECT h.*
FROM hosts h
         JOIN (SELECT unnest(sqlc.arg('scopes')::uuid[]) AS scope, unnest(sqlc.arg('hosts')::text[]) AS host) w USING (scope, host)
ORDER BY h.scope, h.host
FOR UPDATE OF h;

-- name: HostWrite :exec
-- Writes the state and the settings of a locked host.
UPDATE hosts
SET threshold = @threshold, window_ms = @window_ms, max_concurrency = @max_concurrency, max_rate = @max_rate, held_until = @held_until,
    adaptive = @adaptive, latency_ms = @latency_ms, state = @state, failures = @failures, openings = @openings, successes = @successes, since = @since, open_until = @open_until,
    seat_endpoints = @seat_endpoints, seat_tokens = @seat_tokens, updated_at = @now
WHERE scope = @scope
  AND host = @host;

-- name: HostNotify :exec
-- Notifies workers that hosts have changed.
SELECT pg_notify('rubato_hosts', '');

-- name: HostListSeats :many
-- Returns the seats with a claim that is locked under the same token.
SELECT s.endpoint_id, s.claim_token
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('tokens')::bigint[]) AS token) w
         JOIN schedules s ON s.endpoint_id = ANY (ARRAY[w.endpoint_id]) AND s.claim_token = w.token
WHERE s.claimed_by IS NOT NULL
  AND s.due_at > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp());

-- name: HostListChanged :many
-- Returns the hosts that changed since an instant, and all hosts without one.
SELECT *
FROM hosts
WHERE updated_at >= coalesce(sqlc.narg('since')::timestamptz, '-infinity'::timestamptz)
ORDER BY updated_at;

-- name: HostList :many
-- Returns the hosts of a tenant after a name.
SELECT *
FROM hosts
WHERE scope = @scope
  AND host > @after
ORDER BY host
LIMIT sqlc.arg('max_rows');

-- name: HostGet :one
SELECT *
FROM hosts
WHERE scope = @scope
  AND host = @host;

-- name: HostTraffic :many
-- Counts the endpoints of a tenant at hosts, and those of them that wait, each up to max_rows. An
-- endpoint waits if its run is due and has not started, or if its next run comes later because the
-- host is open.
SELECT w.host::text AS host, count(*)::int AS endpoints, (count(*) FILTER (WHERE e.waits))::int AS waiting
FROM (SELECT unnest(sqlc.arg('hosts')::text[]) AS host) w
         CROSS JOIN LATERAL (SELECT s.run_id IS NULL
                                        AND (s.planned_at <= clock.now OR s.source = 'circuit-open')
                                        AND coalesce(s.paused_until <= clock.now, true) AS waits
                             FROM endpoints e
                                      JOIN schedules s ON s.endpoint_id = e.id
                                      CROSS JOIN (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
                             WHERE e.tenant_id = @tenant_id
                               AND e.host = w.host
                               AND e.archived_at IS NULL
                             LIMIT sqlc.arg('max_rows')) e
GROUP BY w.host;

-- name: HostGauge :one
-- Counts the hosts that are open, half-open, or have an adaptive limit, and the open dead letters,
-- each up to max_rows.
SELECT (SELECT count(*) FROM (SELECT FROM hosts WHERE state = 'open' LIMIT sqlc.arg('max_rows')) o)::bigint AS open,
       (SELECT count(*) FROM (SELECT FROM hosts WHERE state = 'half_open' LIMIT sqlc.arg('max_rows')) h)::bigint AS half_open,
       (SELECT count(*) FROM (SELECT FROM hosts WHERE adaptive IS NOT NULL LIMIT sqlc.arg('max_rows')) l)::bigint AS limited,
       (SELECT count(*) FROM (SELECT FROM dead_letters WHERE state = 'open' LIMIT sqlc.arg('max_rows')) d)::bigint AS dead_letters;

-- name: HostDropIdle :execrows
-- Deletes closed hosts without failures and settings that did not change for a day, at most
-- max_rows.
DELETE FROM hosts
WHERE (scope, host) IN (SELECT h.scope, h.host
                        FROM hosts h
                        WHERE h.updated_at < coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - interval '1 day'
                          AND h.state = 'closed'
                          AND h.failures = 0
                          AND h.threshold IS NULL
                          AND h.window_ms IS NULL
                          AND h.max_concurrency IS NULL
                          AND h.max_rate IS NULL
                        ORDER BY h.scope, h.host
                        LIMIT sqlc.arg('max_rows')
                        FOR UPDATE SKIP LOCKED);
