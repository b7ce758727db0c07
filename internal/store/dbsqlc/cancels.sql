-- name: RunLockLive :one
-- Keeps a live run of a tenant as it is until the transaction ends: its finish and its settlement wait.
SELECT *
FROM live_runs
WHERE run_id = @run_id AND tenant_id = @tenant_id
FOR UPDATE;

-- name: RunCancel :one
-- Asks for the end of a live run, by run and token, unless somebody has asked already: the first request stays. It ends nothing by
-- itself; the worker that holds the run does, through an ordinary finish.
UPDATE schedules
SET cancel_requested_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
    cancel_requested_by = sqlc.arg('author')::text,
    cancel_reason       = sqlc.arg('reason')::text
WHERE endpoint_id = @endpoint_id AND run_id = @run_id::uuid AND claim_token = @token AND cancel_requested_at IS NULL
RETURNING cancel_requested_at::timestamptz AS requested_at;

-- name: CancelNotify :exec
-- Tells a worker, when the transaction commits, that one of its runs is to be canceled.
SELECT pg_notify('rubato_cancel', sqlc.arg('worker_id')::uuid::text);

-- name: RunListCanceled :many
-- The live runs of a worker that somebody asked to cancel.
SELECT run_id::uuid AS run_id, claim_token, cancel_requested_by::text AS author, cancel_reason::text AS reason
FROM schedules
WHERE claimed_by = sqlc.arg('worker_id')::uuid AND cancel_requested_at IS NOT NULL;
