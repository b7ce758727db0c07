-- name: PlanByKey :exec
-- Makes the rest of the transaction look rows up by key. For the thousand endpoints of one scan,
-- the planner would otherwise estimate a sequential scan to be cheaper.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
       set_config('plan_cache_mode', 'force_custom_plan', true);

-- name: PlannerScanLock :one
-- Locks and returns the scan cursor of the planners. It returns no row while another planner holds
-- it.
SELECT txid, endpoint_cursor,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS until,
       coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())::timestamptz AS now
FROM planner_scan
FOR UPDATE SKIP LOCKED;

-- name: PlannerScanAdvance :exec
UPDATE planner_scan
SET txid = @txid, endpoint_cursor = @endpoint_cursor;

-- name: PlannerScanFinished :many
-- Returns the endpoints of finished runs, at most max_rows per tenant. It scans the index that the
-- event feed uses, one tenant after the other.
SELECT n.txid, n.endpoint_ids
FROM tenants t
         CROSS JOIN LATERAL (SELECT w.txid, w.endpoint_ids
                             FROM finished_runs w
                             WHERE w.tenant_id = t.id AND w.txid >= sqlc.arg('from_txid')::bigint AND w.txid < sqlc.arg('until')::bigint
                             ORDER BY w.txid, w.id
                             LIMIT sqlc.arg('max_rows')::int) n;

-- name: PlannerScanEndpoints :many
-- Returns the next endpoints in the order of their IDs, archived ones too.
SELECT id
FROM endpoints
WHERE id > sqlc.arg('after')::uuid
ORDER BY id
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerScanNewest :many
-- Returns the endpoints that were registered last.
SELECT id
FROM endpoints
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerInsert :execrows
-- Adds the given endpoints in service that the planner does not know yet. They are due at once.
INSERT INTO planner_state (endpoint_id, due_at, trigger, claim_token, not_before, seen_version, seen_failures, memory)
SELECT s.endpoint_id, sqlc.arg('now')::timestamptz, 'never_analysed', 0, sqlc.arg('now')::timestamptz, s.version, 0, '{}'
FROM schedules s
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND NOT s.call
  AND s.owner_id IS NULL
  AND NOT EXISTS (SELECT 1 FROM planner_state p WHERE p.endpoint_id = s.endpoint_id)
ON CONFLICT DO NOTHING;

-- name: PlannerTriggerChanged :many
-- Makes those of the given endpoints due that changed: the bit length of the failure count, or the
-- status of their runs. A failing endpoint is queued one hour ahead, so that the most urgent
-- analyses go first without starving the others. If an endpoint is claimed, it is due again after
-- the claim. No endpoint is due before not_before, and a parked one stays parked. The statement
-- returns the endpoints that started or stopped failing.
WITH changed AS MATERIALIZED (
    SELECT c.endpoint_id, c.status, c.bits, p.seen_failures <> c.bits AS failing, (p.seen_failures = 0) <> (c.bits = 0) AS turned
    FROM (SELECT s.endpoint_id, s.last_status AS status,
                 (CASE WHEN s.failure_count = 0 THEN 0 ELSE floor(log(2, s.failure_count::numeric)) + 1 END)::smallint AS bits
          FROM schedules s
          WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
            AND s.last_status IN ('succeeded', 'failed', 'timed_out')) c
             JOIN planner_state p ON p.endpoint_id = c.endpoint_id
    WHERE p.seen_failures <> c.bits OR p.seen_status IS DISTINCT FROM c.status AND p.seen_status IS NOT NULL
), triggered AS (
    UPDATE planner_state p
    SET due_at          = CASE WHEN p.claimed_by IS NOT NULL OR p.parked IS NOT NULL THEN p.due_at
                               WHEN p.not_before > sqlc.arg('now')::timestamptz THEN least(p.due_at, p.not_before)
                               ELSE least(p.due_at, sqlc.arg('now')::timestamptz
                                    - CASE WHEN c.failing THEN interval '1 hour' ELSE interval '30 minutes' END) END,
        trigger         = CASE WHEN p.claimed_by IS NOT NULL OR p.parked IS NOT NULL THEN p.trigger
                               WHEN c.failing THEN 'failures_changed' ELSE 'outcome_changed' END,
        pending_trigger = CASE WHEN p.claimed_by IS NULL THEN p.pending_trigger
                               WHEN c.failing THEN 'failures_changed' ELSE 'outcome_changed' END,
        seen_failures   = c.bits,
        seen_status     = c.status
    FROM changed c
    WHERE p.endpoint_id = c.endpoint_id
    RETURNING p.endpoint_id, c.turned
)
SELECT endpoint_id
FROM triggered
WHERE turned;

-- name: PlannerTriggerGroups :execrows
-- Makes the endpoints due that have one of the roles in the group of a given endpoint. The numbers
-- of groups, and of endpoints per role, are bounded. They are queued behind endpoints that fail
-- themselves. Another reason for which an endpoint is due already is kept. A claimed endpoint is
-- due again after its claim, and no endpoint is due before not_before. An endpoint with its planner
-- off triggers no other, because analyses do not see it.
WITH groups AS MATERIALIZED (
    SELECT e.tenant_id, e.labels ->> sqlc.arg('group_label')::text AS name
    FROM endpoints e
    WHERE e.id = ANY (sqlc.arg('endpoint_ids')::uuid[]) AND e.archived_at IS NULL AND e.planner <> 'off'
      AND e.labels ->> sqlc.arg('group_label')::text <> ''
    GROUP BY 1, 2
    ORDER BY 1, 2
    LIMIT sqlc.arg('max_groups')::int
), helpers AS MATERIALIZED (
    SELECT m.id
    FROM groups g
             CROSS JOIN unnest(sqlc.arg('roles')::text[]) AS r (role)
             CROSS JOIN LATERAL (SELECT f.id
                                 FROM (SELECT e.id, e.tenant_id, e.archived_at
                                       FROM endpoints e
                                       WHERE e.labels @> jsonb_build_object(sqlc.arg('group_label')::text, g.name, sqlc.arg('role_label')::text, r.role)
                                       OFFSET 0) f -- Forces the index of labels instead of a scan of the tenant.
                                 WHERE f.tenant_id = g.tenant_id AND f.archived_at IS NULL
                                 LIMIT sqlc.arg('max_members')::int) m
    WHERE m.id <> ALL (sqlc.arg('endpoint_ids')::uuid[])
)
UPDATE planner_state p
SET due_at  = CASE WHEN p.claimed_by IS NOT NULL THEN p.due_at
                   WHEN p.not_before > sqlc.arg('now')::timestamptz THEN least(p.due_at, p.not_before)
                   ELSE least(p.due_at, sqlc.arg('now')::timestamptz - interval '45 minutes') END,
    trigger = CASE WHEN p.claimed_by IS NULL AND p.trigger IN ('never_analysed', 'time_reached') THEN 'group_changed' ELSE p.trigger END,
    pending_trigger = CASE WHEN p.claimed_by IS NULL THEN p.pending_trigger ELSE coalesce(p.pending_trigger, 'group_changed') END
FROM helpers h
WHERE p.endpoint_id = h.id AND p.parked IS NULL;

-- name: PlannerGroup :many
-- Returns the newest other endpoints of a group that an advisor may see, at most max_rows.
SELECT e.*
FROM endpoints e
WHERE e.tenant_id = @tenant_id
  AND e.labels @> jsonb_build_object(sqlc.arg('group_label')::text, sqlc.arg('name')::text)
  AND e.archived_at IS NULL
  AND e.planner <> 'off'
  AND e.id <> @endpoint_id
ORDER BY e.id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerUnpark :execrows
-- Makes those of the given endpoints due again that were parked, if the pause is over or the
-- configuration changed.
UPDATE planner_state p
SET parked = NULL, due_at = greatest(sqlc.arg('now')::timestamptz, p.not_before), trigger = 'time_reached'
FROM schedules s
WHERE s.endpoint_id = ANY (sqlc.arg('endpoint_ids')::uuid[])
  AND p.endpoint_id = s.endpoint_id
  AND (p.parked = 'paused' AND coalesce(s.paused_until <= sqlc.arg('now')::timestamptz, true)
    OR p.parked = 'off' AND p.seen_version <> s.version);

-- name: PlannerClaim :many
-- Claims due endpoints, the most urgent first, at most max_rows. A claim raises the token, records
-- the planner, and locks the row until due_at. Rows that another planner is claiming are skipped.
WITH due AS MATERIALIZED (
    SELECT p.endpoint_id
    FROM planner_state p
    WHERE p.due_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AND p.due_at < 'infinity'
    ORDER BY p.due_at
    LIMIT sqlc.arg('max_rows')::int
    FOR UPDATE SKIP LOCKED
)
UPDATE planner_state p
SET claim_token = p.claim_token + 1, claimed_by = sqlc.arg('planner_id')::uuid,
    due_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('lock_ms')::bigint * interval '1 ms'
FROM due, endpoints e
WHERE p.endpoint_id = due.endpoint_id AND e.id = p.endpoint_id
RETURNING p.endpoint_id, e.tenant_id, p.claim_token, p.trigger, p.memory;

-- name: PlannerRelease :execrows
-- Releases claims. They are due at once, so that other planners can claim them.
UPDATE planner_state p
SET claimed_by = NULL, due_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
FROM (SELECT unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id, unnest(sqlc.arg('tokens')::bigint[]) AS token) r
WHERE p.endpoint_id = r.endpoint_id AND p.claim_token = r.token AND p.claimed_by = sqlc.arg('planner_id')::uuid;

-- name: PlannerClaimLock :one
-- Locks the row of a claim for the transaction that ends it. It returns no row if the claim was
-- lost; then the caller must not write.
SELECT endpoint_id
FROM planner_state
WHERE endpoint_id = @endpoint_id AND claim_token = @claim_token AND claimed_by = sqlc.arg('planner_id')::uuid
  AND due_at > coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
FOR UPDATE;

-- name: PlannerClaimEnd :execrows
-- Ends a claim. If a trigger fired during the claim, the endpoint is due again at not_before.
UPDATE planner_state
SET claimed_by = NULL, pending_trigger = NULL, parked = NULL, not_before = sqlc.arg('not_before')::timestamptz, memory = @memory, seen_version = @seen_version,
    last_session = coalesce(sqlc.narg('last_session')::uuid, last_session),
    due_at = CASE WHEN pending_trigger IS NULL THEN sqlc.arg('due_at')::timestamptz
                  ELSE least(sqlc.arg('due_at')::timestamptz, sqlc.arg('not_before')::timestamptz) END,
    trigger = coalesce(pending_trigger, 'time_reached'),
    seen_status = coalesce(seen_status, sqlc.narg('seen_status')::text)
WHERE endpoint_id = @endpoint_id AND claim_token = @claim_token;

-- name: PlannerPark :execrows
-- Ends a claim of an endpoint that is paused or has its planner off.
UPDATE planner_state
SET claimed_by = NULL, pending_trigger = NULL, parked = sqlc.arg('parked')::text, due_at = 'infinity', seen_version = @seen_version
WHERE endpoint_id = @endpoint_id AND claim_token = @claim_token AND claimed_by = sqlc.arg('planner_id')::uuid;

-- name: PlannerDelete :execrows
-- Deletes the row of an endpoint that is out of service.
DELETE
FROM planner_state
WHERE endpoint_id = @endpoint_id AND claim_token = @claim_token AND claimed_by = sqlc.arg('planner_id')::uuid;

-- name: PlannerRuns :many
-- Returns the newest runs of an endpoint without their wide columns.
SELECT id, started_at, finished_at, status, reason_code, status_code, source, response_bytes, body_digest,
       (dns_us::bigint + connect_us + tls_us + wait_us + transfer_us)::bigint AS latency_us
FROM runs
WHERE endpoint_id = @endpoint_id AND scheduled_for >= sqlc.arg('since')::timestamptz AND status <> 'skipped'
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerSessionInsert :exec
INSERT INTO planner_sessions (id, tenant_id, endpoint_id, version, started_at, finished_at, advisor, trigger, authority, outcome,
                              reasoning, confidence, next_analysis_at, calls, changes, warnings, error, model, prompt_digest,
                              prompt_tokens, completion_tokens, cost_micros)
VALUES (@id, @tenant_id, @endpoint_id, @version, @started_at, @finished_at, @advisor, @trigger, @authority, @outcome,
        @reasoning, @confidence, @next_analysis_at, @calls, @changes, @warnings, @error, @model, @prompt_digest,
        @prompt_tokens, @completion_tokens, @cost_micros);

-- name: PlannerSessionGet :one
SELECT *
FROM planner_sessions
WHERE id = @id AND tenant_id = @tenant_id;

-- name: PlannerSessionList :many
SELECT *
FROM planner_sessions
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('outcome')::text IS NULL OR outcome = sqlc.narg('outcome'))
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerSessionDropBefore :execrows
-- Deletes the oldest sessions, at most 1000 per call.
DELETE
FROM planner_sessions
WHERE id = ANY (ARRAY(SELECT s.id FROM planner_sessions s WHERE s.id < sqlc.arg('before')::uuid ORDER BY s.id LIMIT 1000)::uuid[]);

-- name: PlannerSuggestionInsert :exec
-- Inserts a suggestion. It replaces a pending suggestion of the endpoint.
WITH replaced AS (
    UPDATE planner_suggestions
    SET state = 'replaced', decided_at = sqlc.arg('created_at')::timestamptz
    WHERE endpoint_id = sqlc.arg('endpoint_id')::uuid AND state = 'pending'
    RETURNING id
)
INSERT INTO planner_suggestions (id, tenant_id, endpoint_id, session_id, advisor, version, plan, reasoning, created_at, expires_at, state)
SELECT @id::uuid, @tenant_id::uuid, sqlc.arg('endpoint_id')::uuid, @session_id::uuid, @advisor::text, @version::bigint, @plan::jsonb, @reasoning::text,
       sqlc.arg('created_at')::timestamptz, @expires_at::timestamptz, 'pending'
FROM (SELECT count(*) FROM replaced) done;

-- name: PlannerSuggestionGet :one
SELECT *
FROM planner_suggestions
WHERE id = @id AND tenant_id = @tenant_id;

-- name: PlannerSuggestionDecide :one
-- Decides a pending suggestion. It returns no row if the suggestion does not exist, was decided, or
-- has expired.
UPDATE planner_suggestions
SET state = sqlc.arg('state')::text, decided_at = sqlc.arg('now')::timestamptz, decided_by = sqlc.arg('decided_by')::text
WHERE id = @id AND tenant_id = @tenant_id AND state = 'pending' AND expires_at > sqlc.arg('now')::timestamptz
RETURNING *;

-- name: PlannerSuggestionList :many
-- Returns the suggestions of a tenant in the given states. open_at and over_at distinguish pending
-- and expired suggestions, because rows do not store expiry. A suggestion without a decision in its
-- time has expired, even if a newer one replaced it afterwards.
SELECT *
FROM planner_suggestions
WHERE tenant_id = @tenant_id
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR endpoint_id = sqlc.narg('endpoint_id'))
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
  AND (sqlc.narg('states')::text[] IS NULL OR state = ANY (sqlc.narg('states')::text[]))
  AND (sqlc.narg('open_at')::timestamptz IS NULL OR expires_at > coalesce(decided_at, sqlc.narg('open_at')))
  AND (sqlc.narg('over_at')::timestamptz IS NULL OR expires_at <= coalesce(decided_at, sqlc.narg('over_at')))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerSuggestionDropBefore :execrows
-- Deletes the oldest suggestions, at most 1000 per call.
DELETE
FROM planner_suggestions
WHERE id = ANY (ARRAY(SELECT s.id FROM planner_suggestions s WHERE s.id < sqlc.arg('before')::uuid ORDER BY s.id LIMIT 1000)::uuid[]);

-- name: PlannerSpendReserve :execrows
-- Reserves tokens of a day. It affects no row if the reservation would exceed the limit.
INSERT INTO planner_spend AS p (day, tenant_id, endpoint_id, tokens)
SELECT sqlc.arg('day')::text::date, sqlc.arg('tenant_id')::uuid, sqlc.arg('endpoint_id')::uuid, sqlc.arg('tokens')::bigint
WHERE sqlc.arg('tokens')::bigint <= sqlc.arg('max_tokens')::bigint
ON CONFLICT (day, tenant_id, endpoint_id) DO UPDATE SET tokens = p.tokens + EXCLUDED.tokens
WHERE p.tokens + EXCLUDED.tokens <= sqlc.arg('max_tokens')::bigint;

-- name: PlannerSpendSettle :exec
-- Corrects a reservation to the used tokens, in every row that it was taken from. The rows are
-- locked in the order of reservations, the shared row first, because another order could deadlock.
WITH charged AS MATERIALIZED (
    SELECT s.day, s.tenant_id, s.endpoint_id
    FROM planner_spend s
    WHERE s.day = sqlc.arg('day')::text::date
      AND (s.tenant_id = sqlc.arg('tenant_id')::uuid AND s.endpoint_id IN (sqlc.arg('endpoint_id')::uuid, '00000000-0000-0000-0000-000000000000')
        OR s.tenant_id = '00000000-0000-0000-0000-000000000000' AND s.endpoint_id = '00000000-0000-0000-0000-000000000000')
    ORDER BY s.tenant_id, s.endpoint_id
    FOR UPDATE
)
UPDATE planner_spend p
SET tokens = greatest(0, p.tokens + sqlc.arg('more')::bigint)
FROM charged
WHERE p.day = charged.day AND p.tenant_id = charged.tenant_id AND p.endpoint_id = charged.endpoint_id;

-- name: PlannerSpendGet :one
-- Returns the tokens that a tenant has spent on a day.
SELECT coalesce(sum(tokens), 0)::bigint AS tokens
FROM planner_spend
WHERE day = sqlc.arg('day')::text::date AND tenant_id = @tenant_id AND endpoint_id = '00000000-0000-0000-0000-000000000000';

-- name: PlannerSpendTop :many
-- Returns the endpoints of a tenant that spent most tokens on a day.
SELECT endpoint_id, tokens
FROM planner_spend
WHERE day = sqlc.arg('day')::text::date AND tenant_id = @tenant_id AND endpoint_id <> '00000000-0000-0000-0000-000000000000'
ORDER BY tokens DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: PlannerSpendDropBefore :execrows
DELETE
FROM planner_spend
WHERE day < sqlc.arg('day')::text::date;

-- name: PlannerHoldSet :exec
-- Forbids the planner some kinds of change of an endpoint. A new hold replaces an earlier one of
-- the same kind.
INSERT INTO planner_holds (endpoint_id, kind, until, held_by)
SELECT sqlc.arg('endpoint_id')::uuid, unnest(sqlc.arg('kinds')::text[]), sqlc.arg('until')::timestamptz, sqlc.arg('held_by')::text
ON CONFLICT (endpoint_id, kind) DO UPDATE SET until = EXCLUDED.until, held_by = EXCLUDED.held_by;

-- name: PlannerHoldList :many
-- Returns the holds of an endpoint, expired ones included.
SELECT *
FROM planner_holds
WHERE endpoint_id = @endpoint_id;

-- name: PlannerHoldDropBefore :execrows
-- Deletes expired holds, at most 1000 per call.
DELETE
FROM planner_holds
WHERE (endpoint_id, kind) IN (SELECT h.endpoint_id, h.kind FROM planner_holds h WHERE h.until < sqlc.arg('before')::timestamptz LIMIT 1000);

-- name: PlannerFleetLatencies :many
-- Returns the newest latencies of endpoints with recently finished runs, over all tenants and at
-- most max_endpoints. They distinguish a slow target from a slow network.
WITH recent AS MATERIALIZED (
    SELECT DISTINCT n.endpoint_id
    FROM (SELECT w.endpoint_ids FROM finished_runs w ORDER BY w.id DESC LIMIT sqlc.arg('max_finished')::int) w
             CROSS JOIN LATERAL unnest(w.endpoint_ids) AS n (endpoint_id)
    LIMIT sqlc.arg('max_endpoints')::int
)
SELECT (e.spec ->> 'url')::text AS url, l.latencies
FROM recent r
         JOIN endpoints e ON e.id = r.endpoint_id
         CROSS JOIN LATERAL (SELECT array_agg(a.latency_us ORDER BY a.id DESC)::bigint[] AS latencies
                             FROM (SELECT x.id, (x.dns_us::bigint + x.connect_us + x.tls_us + x.wait_us + x.transfer_us)::bigint AS latency_us
                                   FROM runs x
                                   WHERE x.endpoint_id = e.id AND x.scheduled_for >= sqlc.arg('since')::timestamptz AND x.status_code IS NOT NULL
                                   ORDER BY x.id DESC
                                   LIMIT sqlc.arg('max_runs')::int) a) l
WHERE l.latencies IS NOT NULL;
