-- name: RunLockLive :one
-- Locks the row of a tenant's live run until the transaction ends, so that finish and settlement
-- wait.
SELECT *
FROM live_runs
WHERE run_id = @run_id AND tenant_id = @tenant_id
FOR UPDATE;

-- name: RunCancel :one
-- Requests the cancellation of a live run, by run and token. An earlier request is kept. The run
-- goes on until the worker that holds it cancels it and finishes it as usual.
UPDATE schedules
SET cancel_requested_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()),
    cancel_requested_by = sqlc.arg('author')::text,
    cancel_reason       = sqlc.arg('reason')::text
WHERE endpoint_id = @endpoint_id AND run_id = @run_id::uuid AND claim_token = @token AND cancel_requested_at IS NULL
RETURNING cancel_requested_at::timestamptz AS requested_at;

-- name: CancelNotify :exec
-- Notifies a worker at commit that one of its runs is to be canceled.
SELECT pg_notify('rubato_cancel', sqlc.arg('worker_id')::uuid::text);

-- name: RunListCanceled :many
-- Returns the live runs of a worker with a request to cancel.
SELECT run_id::uuid AS run_id, claim_token, cancel_requested_by::text AS author, cancel_reason::text AS reason
FROM schedules
WHERE claimed_by = sqlc.arg('worker_id')::uuid AND cancel_requested_at IS NOT NULL;
