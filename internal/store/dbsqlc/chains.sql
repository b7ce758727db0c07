-- name: ChainPut :one
-- Stores a chain, or replaces its definition. An equal definition changes nothing and keeps its
-- version.
INSERT INTO chains AS c (tenant_id, name, definition, created_at, updated_at)
SELECT @tenant_id, @name, @definition, clock.now, clock.now
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (tenant_id, name) DO UPDATE
    SET definition = excluded.definition,
        version    = c.version + (c.definition <> excluded.definition)::int,
        updated_at = CASE WHEN c.definition <> excluded.definition THEN excluded.updated_at ELSE c.updated_at END
RETURNING *;

-- name: ChainLock :many
-- Locks the chain of a name until its definition is replaced. It returns no row for a new chain.
SELECT * FROM chains WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE;

-- name: ChainGet :one
SELECT * FROM chains WHERE tenant_id = @tenant_id AND name = @name;

-- name: ChainList :many
-- Returns the chains of a tenant after a name, by name.
SELECT * FROM chains WHERE tenant_id = @tenant_id AND name > @after ORDER BY name LIMIT sqlc.arg('max_rows')::int;

-- name: ChainDelete :execrows
-- Deletes a chain. Its runs keep the definition that they were started with.
DELETE FROM chains WHERE tenant_id = @tenant_id AND name = @name;

-- name: ChainRunInsert :execrows
-- Starts a run. It affects no row if a run with its key exists.
INSERT INTO chain_runs (id, tenant_id, chain, version, definition, input, idempotency_key, requested_by, created_at, deadline_at, advance_at)
SELECT @id, @tenant_id, @chain, @version, @definition, @input, sqlc.narg('idempotency_key'), @requested_by, clock.now,
       CASE WHEN sqlc.arg('timeout_ms')::bigint > 0 THEN clock.now + sqlc.arg('timeout_ms')::bigint * interval '1 ms' END, clock.now
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (tenant_id, chain, idempotency_key) DO NOTHING;

-- name: ChainStepsInsert :exec
-- Inserts steps that wait: those of a new run, or the elements of a step.
INSERT INTO chain_steps (run_id, name, element, item)
SELECT sqlc.arg('run_id')::uuid, unnest(sqlc.arg('names')::text[]), unnest(sqlc.arg('elements')::int[]), nullif(unnest(sqlc.arg('items')::text[]), '')::jsonb;

-- name: ChainRunGet :one
SELECT * FROM chain_runs WHERE id = @id AND tenant_id = @tenant_id;

-- name: ChainRunByKey :one
-- Returns the run with a key, and whether it has an input. JSON is equal if its values are, however
-- they are written.
SELECT sqlc.embed(chain_runs), (input = sqlc.arg('input')::jsonb)::boolean AS same FROM chain_runs WHERE tenant_id = @tenant_id AND chain = @chain AND idempotency_key = @idempotency_key::text;

-- name: ChainRunList :many
-- Returns the runs of a chain, newest first.
SELECT * FROM chain_runs
WHERE tenant_id = @tenant_id AND chain = @chain
  AND (sqlc.narg('before')::uuid IS NULL OR id < sqlc.narg('before'))
ORDER BY id DESC
LIMIT sqlc.arg('max_rows')::int;

-- name: ChainRunCancel :execrows
-- Requests the end of a run that is not over. An earlier request is kept.
UPDATE chain_runs
SET cancel_requested_at = coalesce(cancel_requested_at, clock.now), advance_at = clock.now
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock
WHERE id = @id AND tenant_id = @tenant_id AND ended_at IS NULL;

-- name: ChainRunCountOpen :one
-- Counts the runs of a tenant that have not ended, at most max_rows.
SELECT count(*)::bigint AS open
FROM (SELECT FROM chain_runs WHERE tenant_id = @tenant_id AND ended_at IS NULL LIMIT sqlc.arg('max_rows')::int) o;

-- name: ChainRunsDue :many
-- Returns the runs that a step or an instant woke, a few of each tenant, least recently advanced
-- first. It takes the oldest rows. If there are max_rows of them, it reads the oldest of each tenant
-- with open runs too, one index descent per tenant, so that the runs of one tenant hide no other's.
-- A run that waits for its steps is looked at a minute after its last advance, which gives the order
-- of the woken ones. After a failed advance, a run waits until retry_at.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), oldest AS MATERIALIZED (
    SELECT r.id, r.tenant_id, r.advance_at
    FROM chain_runs r
    WHERE r.ended_at IS NULL AND r.advance_at <= (SELECT now FROM clock)
    ORDER BY r.advance_at
    LIMIT sqlc.arg('max_rows')::int
), owner AS (
    (SELECT r.tenant_id FROM chain_runs r
     WHERE r.ended_at IS NULL AND (SELECT count(*) FROM oldest) >= sqlc.arg('max_rows')::int
     ORDER BY r.tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT r.tenant_id FROM chain_runs r WHERE r.ended_at IS NULL AND r.tenant_id > owner.tenant_id ORDER BY r.tenant_id LIMIT 1)
    FROM owner WHERE owner.tenant_id IS NOT NULL
), found AS (
    SELECT o.id, o.tenant_id, o.advance_at FROM oldest o
    UNION
    SELECT head.id, owner.tenant_id, head.advance_at
    FROM owner
             CROSS JOIN LATERAL (SELECT r.id, r.advance_at FROM chain_runs r
                                 WHERE r.tenant_id = owner.tenant_id AND r.ended_at IS NULL AND r.advance_at <= (SELECT now FROM clock)
                                 ORDER BY r.advance_at LIMIT sqlc.arg('per_tenant')::int) head
    UNION
    SELECT r.id, r.tenant_id, r.advance_at - interval '1 minute'
    FROM chain_runs r
    WHERE r.id IN (SELECT i.run_id FROM chain_items i WHERE i.woken)
      AND r.ended_at IS NULL AND r.advance_at > (SELECT now FROM clock) AND (r.retry_at IS NULL OR r.retry_at <= (SELECT now FROM clock))
)
SELECT ranked.id, ranked.tenant_id
FROM (SELECT f.id, f.tenant_id, row_number() OVER (PARTITION BY f.tenant_id ORDER BY f.advance_at, f.id) AS rank FROM found f) ranked
WHERE ranked.rank <= sqlc.arg('per_tenant')::int
ORDER BY ranked.tenant_id, ranked.rank;

-- name: ChainRunClaim :many
-- Locks a run of a chain that a step or an instant woke. A run that another worker advances is
-- passed over.
SELECT *
FROM chain_runs r
WHERE r.id = @id AND r.ended_at IS NULL
  AND (r.advance_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
    OR EXISTS (SELECT FROM chain_items i WHERE i.run_id = r.id AND i.woken))
FOR UPDATE SKIP LOCKED;

-- name: ChainRunPutBack :exec
-- Puts a run behind the others after a failed advance: for 2 s, doubled by each further failure, up
-- to 5 minutes.
-- If another worker has locked the run, it is left to that worker.
UPDATE chain_runs
SET failures = failures + 1, retry_at = clock.now + wait.time, advance_at = clock.now + wait.time
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock,
     (SELECT o.id, least(2 ^ least(o.failures + 1, 9), 300) * interval '1 s' AS time
      FROM chain_runs o WHERE o.id = @id AND o.ended_at IS NULL
      FOR UPDATE SKIP LOCKED) wait
WHERE chain_runs.id = wait.id;

-- name: ChainItemsWake :exec
-- Takes the wakes of a run. Wakes that are committed later stay.
UPDATE chain_items SET woken = false WHERE run_id = @run_id AND woken;

-- name: ChainItemsOver :many
-- Returns open one-off runs of a run whose item is gone, with their last attempt, at most max_rows in
-- the order in which they ended. live means
-- that the item was withdrawn during its run, which ends later. Without a record and a live run the
-- item was lost. A call is over when its schedule is gone.
SELECT i.endpoint_id, i.slot, i.name, i.element, i.undo,
       coalesce(last.status, '')::text AS status, coalesce(last.reason_code, '')::text AS reason, coalesce(last.error, '')::text AS error,
       coalesce(last.started_at, i.slot)::timestamptz AS started_at, coalesce(last.finished_at, i.slot)::timestamptz AS finished_at, b.body,
       EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = i.endpoint_id AND s.run_id IS NOT NULL AND s.source = 'manual' AND s.slot = i.slot) AS live
FROM chain_items i
         LEFT JOIN LATERAL (SELECT r.id, r.status, r.reason_code, r.error, r.started_at, r.finished_at
                            FROM runs r
                            WHERE r.endpoint_id = i.endpoint_id AND r.scheduled_for = i.slot AND r.attempt > 0
                            ORDER BY r.attempt DESC, r.infra_attempt DESC
                            LIMIT 1) last ON true
         LEFT JOIN run_bodies b ON b.run_id = last.id AND b.scheduled_for = i.slot
WHERE i.run_id = @run_id AND NOT i.settled
  AND NOT EXISTS (SELECT FROM one_off_items o WHERE o.endpoint_id = i.endpoint_id AND o.slot = i.slot)
  AND NOT EXISTS (SELECT FROM schedules s WHERE s.endpoint_id = i.endpoint_id AND s.call)
ORDER BY last.finished_at, i.slot
LIMIT sqlc.arg('max_rows')::int;

-- name: ChainItemSettle :exec
UPDATE chain_items SET settled = true WHERE endpoint_id = @endpoint_id AND slot = @slot;

-- name: ChainStepEnd :execrows
-- Ends a step that is not over, and records its compensation.
UPDATE chain_steps
SET status = @status, reason = @reason, error = @error, output = @output, undo = @undo,
    started_at = coalesce(started_at, sqlc.narg('started_at')), ended_at = @ended_at::timestamptz, ended = nextval('chain_step_order')
WHERE run_id = @run_id AND name = @name AND element = @element AND ended IS NULL;

-- name: ChainStepStart :execrows
-- Marks a step that waits as active.
UPDATE chain_steps
SET status = 'active', started_at = @started_at::timestamptz
WHERE run_id = @run_id AND name = @name AND element = @element AND status = 'waiting';

-- name: ChainUndo :execrows
-- Moves the compensation of a step from one state to another.
UPDATE chain_steps
SET undo = @undo, undo_error = @undo_error
WHERE run_id = @run_id AND name = @name AND element = @element AND undo = sqlc.arg('was')::text;

-- name: ChainStepStates :many
-- Returns the steps and elements of a run as its advance needs them. The item of an element is that
-- of its request or its compensation. Outputs of elements are read together, when all of them are
-- over, or by their own compensation.
SELECT s.name, s.element, s.status, s.reason, s.undo, s.ended,
       (CASE WHEN s.status = 'waiting' OR s.undo = 'recorded' THEN s.item END)::jsonb AS item,
       (CASE WHEN s.element < 0 OR s.undo = 'recorded' OR NOT bool_or(s.ended IS NULL AND s.element >= 0) OVER (PARTITION BY s.name)
             THEN s.output END)::jsonb AS output
FROM chain_steps s
WHERE s.run_id = @run_id
ORDER BY s.name, s.element;

-- name: ChainStepList :many
-- Returns the steps of a run, and at most max_elements elements: those that failed first, then those
-- that run. Each has the one-off runs of step and compensation.
WITH listed AS (
    (SELECT s.* FROM chain_steps s WHERE s.run_id = @run_id AND s.element < 0)
    UNION ALL
    (SELECT s.* FROM chain_steps s
     WHERE s.run_id = @run_id AND s.element >= 0
     ORDER BY (s.status IN ('failed', 'canceled') OR s.undo = 'failed') DESC, (s.status = 'active' OR s.undo = 'active') DESC, s.name, s.element
     LIMIT sqlc.arg('max_elements')::int)
)
SELECT s.*, own.endpoint_id AS own_endpoint, own.slot AS own_slot, undo.endpoint_id AS undo_endpoint, undo.slot AS undo_slot
FROM listed s
         LEFT JOIN chain_items own ON own.run_id = @run_id AND own.name = s.name AND own.element = s.element AND NOT own.undo
         LEFT JOIN chain_items undo ON undo.run_id = @run_id AND undo.name = s.name AND undo.element = s.element AND undo.undo
ORDER BY s.name, s.element;

-- name: ChainElementCounts :many
-- Counts the elements of each step of a run by status.
SELECT name, status, count(*)::int AS elements FROM chain_steps WHERE run_id = @run_id AND element >= 0 GROUP BY name, status;

-- name: ChainItemInsert :exec
-- Records the one-off run of a step or compensation.
INSERT INTO chain_items (endpoint_id, slot, run_id, name, element, undo)
VALUES (@endpoint_id, @slot, @run_id, @name, @element, @undo);

-- name: OneOffChained :execrows
-- Marks a one-off item as one of a chain.
UPDATE one_off_items SET chained = true, undo = @undo WHERE endpoint_id = @endpoint_id AND slot = @slot;

-- name: ChainItemExpire :many
-- Lets the waiting one-off run of a step pass its deadline, so that nothing is sent in its turn,
-- and returns the ID of its next or live attempt.
UPDATE one_off_items o
SET deadline_at = least(o.deadline_at, sqlc.arg('now')::timestamptz)
FROM chain_items i
WHERE i.run_id = @run_id AND i.name = @name AND i.element = @element AND NOT i.undo AND NOT i.settled
  AND o.endpoint_id = i.endpoint_id AND o.slot = i.slot
RETURNING o.run_id;

-- name: ChainCallsOpen :many
-- Locks the schedules of the calls of a step that have not ended. Those that a finish has locked
-- are passed over.
SELECT s.*
FROM schedules s
         JOIN chain_items i ON i.endpoint_id = s.endpoint_id
WHERE i.run_id = @run_id AND i.name = @name AND i.element = @element AND NOT i.undo AND NOT i.settled
  AND s.call
FOR UPDATE OF s SKIP LOCKED;

-- name: ChainCallOver :exec
-- Wakes the chain of a call that ended without a run.
UPDATE chain_items SET woken = true WHERE endpoint_id = @endpoint_id AND NOT settled;

-- name: ChainRunWrite :execrows
-- Writes the state of a run after its moves. A final state ends it.
UPDATE chain_runs
SET status = @status, reason = @reason, output = @output, advance_at = @advance_at, failures = 0, retry_at = NULL,
    ended_at = CASE WHEN @status::text IN ('running', 'compensating') THEN NULL ELSE sqlc.arg('now')::timestamptz END
WHERE id = @id AND ended_at IS NULL;

-- name: ChainWaiterWake :exec
-- Lets a worker ask at once for the end of a run of a chain, for the run of an endpoint that waits
-- for it. A row that is locked is asked or deleted at the moment.
UPDATE suspensions
SET poll_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
WHERE run_id IN (SELECT p.run_id
                 FROM suspensions p
                 WHERE p.status_url = sqlc.arg('url')::text AND p.status_url LIKE 'chain:%'
                 FOR UPDATE SKIP LOCKED);

-- name: ChainStartInsert :exec
-- Records the chains that finished runs start.
INSERT INTO chain_starts (run_id, outcome, chain, tenant_id, endpoint_id, scheduled_for)
SELECT unnest(sqlc.arg('run_ids')::uuid[]), unnest(sqlc.arg('outcomes')::text[]), unnest(sqlc.arg('chains')::text[]),
       unnest(sqlc.arg('tenant_ids')::uuid[]), unnest(sqlc.arg('endpoint_ids')::uuid[]), unnest(sqlc.arg('scheduled_for')::timestamptz[]);

-- name: ChainStartsDue :many
-- Returns starts of chains, a few of each tenant with one, oldest first. A start that failed waits
-- until retry_at.
WITH RECURSIVE clock AS MATERIALIZED (
    SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now
), owner AS (
    (SELECT s.tenant_id FROM chain_starts s ORDER BY s.tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT s.tenant_id FROM chain_starts s WHERE s.tenant_id > owner.tenant_id ORDER BY s.tenant_id LIMIT 1)
    FROM owner WHERE owner.tenant_id IS NOT NULL
)
SELECT head.run_id, head.outcome, head.chain, head.tenant_id, head.scheduled_for, head.failures
FROM owner
         CROSS JOIN LATERAL (SELECT s.run_id, s.outcome, s.chain, s.tenant_id, s.scheduled_for, s.failures FROM chain_starts s
                             WHERE s.tenant_id = owner.tenant_id AND s.retry_at <= (SELECT now FROM clock)
                             ORDER BY s.retry_at, s.run_id LIMIT sqlc.arg('per_tenant')::int) head
ORDER BY head.tenant_id;

-- name: ChainStartPutBack :exec
-- Puts a start behind that failed, as ChainRunPutBack does.
UPDATE chain_starts s
SET failures = s.failures + 1, retry_at = clock.now + least(2 ^ least(s.failures + 1, 9), 300) * interval '1 s'
FROM (SELECT coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) AS now) clock,
     (SELECT o.run_id, o.outcome, o.chain FROM chain_starts o
      WHERE o.run_id = @run_id AND o.outcome = @outcome AND o.chain = @chain
      FOR UPDATE SKIP LOCKED) free
WHERE s.run_id = free.run_id AND s.outcome = free.outcome AND s.chain = free.chain;

-- name: ChainStartTake :many
-- Deletes a start of a chain and returns it with its run. chained means that the run is that of a
-- step, which starts no chain, so that chains do not start each other without end. unchanged means
-- that the response is not the change that the start is for. A start that another worker takes is
-- passed over.
WITH next AS MATERIALIZED ( -- A subquery could be evaluated again for each row.
    SELECT o.run_id, o.outcome, o.chain FROM chain_starts o
    WHERE o.run_id = @run_id AND o.outcome = @outcome AND o.chain = @chain
    FOR UPDATE SKIP LOCKED
), taken AS (
    DELETE FROM chain_starts s
    USING next
    WHERE s.run_id = next.run_id AND s.outcome = next.outcome AND s.chain = next.chain
    RETURNING s.*
)
SELECT t.run_id, t.outcome, t.chain, t.tenant_id, t.endpoint_id, t.scheduled_for, r.status, coalesce(r.reason_code, '')::text AS reason,
       coalesce(r.status_code, 0)::int AS status_code, b.body,
       EXISTS (SELECT FROM chain_items i WHERE i.endpoint_id = t.endpoint_id AND i.slot = t.scheduled_for) AS chained,
       (t.outcome = 'changed' AND coalesce((SELECT p.body_digest
                                            FROM runs p
                                            WHERE p.endpoint_id = t.endpoint_id AND p.scheduled_for < t.scheduled_for
                                              AND p.status = 'succeeded' AND p.body_digest IS NOT NULL
                                            ORDER BY p.scheduled_for DESC
                                            LIMIT 1) = r.body_digest, true))::boolean AS unchanged
FROM taken t
         JOIN runs r ON r.id = t.run_id AND r.scheduled_for = t.scheduled_for
         LEFT JOIN run_bodies b ON b.run_id = t.run_id AND b.scheduled_for = t.scheduled_for;

-- name: ChainRunDropBefore :execrows
-- Deletes runs that ended before an instant, with their steps, at most max_rows.
DELETE
FROM chain_runs
WHERE id IN (SELECT r.id
             FROM chain_runs r
             WHERE r.ended_at < sqlc.arg('before')::timestamptz
             ORDER BY r.ended_at
             LIMIT sqlc.arg('max_rows')::int);
