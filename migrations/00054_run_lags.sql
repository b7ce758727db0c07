-- Start lag of the runs that tell of lateness, for every statement that reports it.

-- +goose Up
-- lag is the time from the due time to the start. It is null for runs that are late by intent: further attempts, runs that somebody asked
-- for, and those of endpoints with jitter or that catch up on everything.
CREATE VIEW run_lags AS
SELECT r.id, r.tenant_id, r.endpoint_id, r.attempt, r.scheduled_for, r.started_at, r.finished_at, r.status, r.status_code,
       r.dns_us, r.connect_us, r.tls_us, r.wait_us, r.transfer_us,
       CASE WHEN r.attempt = 1 AND r.infra_attempt = 0 AND r.source <> 'manual'
                AND (SELECT e.late_by_intent FROM endpoints e WHERE e.id = r.endpoint_id) IS NOT TRUE
            THEN r.started_at - r.scheduled_for END AS lag
FROM runs r;

-- +goose Down
DROP VIEW run_lags;
