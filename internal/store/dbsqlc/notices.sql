-- name: NoticeRulesVersionIncrement :one
-- Raises the version of all rules. It comes first in a transaction that changes rules, because its
-- row lock serialises such changes.
UPDATE notice_rules_version SET version = version + 1 RETURNING version;

-- name: NoticeRulesVersionGet :one
SELECT version FROM notice_rules_version;

-- name: NoticeRuleListAll :many
-- Returns all enabled rules, for the cache of rules.
SELECT * FROM notice_rules WHERE enabled;

-- name: NoticeRuleCount :one
SELECT count(*) FROM notice_rules WHERE tenant_id = sqlc.arg('tenant_id');

-- name: NoticeRuleGet :one
SELECT * FROM notice_rules WHERE tenant_id = sqlc.arg('tenant_id') AND name = sqlc.arg('name');

-- name: NoticeRuleList :many
SELECT *
FROM notice_rules
WHERE tenant_id = sqlc.arg('tenant_id')
  AND name > sqlc.arg('after')
ORDER BY name
LIMIT sqlc.arg('max_rows');

-- name: NoticeRulePut :one
-- Inserts a rule, or replaces it and keeps its ID. The scan of endpoints for the changed rule
-- starts at scan_from, because by then every program uses the new rules.
INSERT INTO notice_rules (id, tenant_id, name, event, threshold, endpoint_id, labels, recovery, remind_ms, enabled, channel, version,
                          created_at, created_by, updated_at, updated_by, scan_from, scan_cursor)
VALUES (audit_log_id(sqlc.arg('now')), sqlc.arg('tenant_id'), sqlc.arg('name'), sqlc.arg('event'), sqlc.arg('threshold'), sqlc.narg('endpoint_id'), sqlc.arg('labels'), sqlc.arg('recovery'), sqlc.arg('remind_ms'), sqlc.arg('enabled'), sqlc.arg('channel'), 1,
        sqlc.arg('now'), sqlc.arg('author'), sqlc.arg('now'), sqlc.arg('author'), sqlc.arg('scan_from'), sqlc.narg('scan_cursor'))
ON CONFLICT (tenant_id, name) DO UPDATE
    SET event       = excluded.event,
        threshold   = excluded.threshold,
        endpoint_id = excluded.endpoint_id,
        labels      = excluded.labels,
        recovery    = excluded.recovery,
        remind_ms   = excluded.remind_ms,
        enabled     = excluded.enabled,
        channel     = excluded.channel,
        version     = notice_rules.version + 1,
        updated_at  = excluded.updated_at,
        updated_by  = excluded.updated_by,
        scan_from   = excluded.scan_from,
        scan_cursor = excluded.scan_cursor
RETURNING *;

-- name: NoticeRuleListBySecret :many
-- Returns the rules with channels that refer to a secret. A tenant has a few hundred rules at most.
SELECT name
FROM notice_rules
WHERE tenant_id = sqlc.arg('tenant_id')
  AND (channel ->> 'urlSecret' = sqlc.arg('secret')::text OR channel ->> 'tokenSecret' = sqlc.arg('secret')::text)
ORDER BY name;

-- name: NoticeCountBySecret :one
-- Counts the waiting notices with a channel of their own that refers to a secret.
SELECT count(*)
FROM notices
WHERE tenant_id = sqlc.arg('tenant_id')
  AND state = 'waiting'
  AND (channel ->> 'urlSecret' = sqlc.arg('secret')::text OR channel ->> 'tokenSecret' = sqlc.arg('secret')::text);

-- name: NoticeRuleDelete :execrows
DELETE FROM notice_rules WHERE id = sqlc.arg('id') AND tenant_id = sqlc.arg('tenant_id');

-- name: NoticeRuleCloseEpisodes :many
-- Closes the open episodes of a rule that was deleted or changed, and mutes their waiting notices.
-- Episodes are locked in the same order as by finishes; see NoticeClose.
WITH open AS (
    SELECT o.id
    FROM notice_episodes o
    WHERE o.rule_id = sqlc.arg('rule_id') AND o.closed_at IS NULL
    ORDER BY o.id
    FOR UPDATE
), ended AS (
    UPDATE notice_episodes ep
        SET closed_at = greatest(sqlc.arg('now')::timestamptz, ep.opened_at)
        FROM open
        WHERE ep.id = open.id
        RETURNING ep.id
), muted AS (
    UPDATE notices n
        SET state = 'muted', ended_at = sqlc.arg('now'), error = 'the rule was changed or deleted before it was sent', claim_token = claim_token + 1
        FROM ended
        WHERE n.episode_id = ended.id
          AND n.state = 'waiting'
)
SELECT id FROM ended;

-- name: NoticeRemindSooner :exec
-- Moves the next reminder of open episodes forward after their rule got reminders or a shorter
-- interval. It locks rows in the order of NoticeRuleCloseEpisodes.
WITH open AS (
    SELECT o.id
    FROM notice_episodes o
    WHERE o.rule_id = sqlc.arg('rule_id') AND o.closed_at IS NULL AND o.remind_at > sqlc.arg('remind_at')::timestamptz
    ORDER BY o.id
    FOR UPDATE
)
UPDATE notice_episodes ep
SET remind_at = sqlc.arg('remind_at')
FROM open
WHERE ep.id = open.id;

-- name: NoticeWithdraw :exec
-- Inserts the last notice of closed episodes, if the receiver may have got an earlier notice of
-- them. It must be a statement after the one that muted the waiting notices: a muted notice had
-- been claimed before if its token is above 1. The claiming worker may still be sending it until
-- its lock ends. The new notice waits for that lock, because it must not arrive before the opening
-- notice.
INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error, cause)
SELECT audit_log_id(sqlc.arg('now')), ep.tenant_id, ep.id, 'withdrawn', 0, sqlc.arg('now'),
       greatest(sqlc.arg('now')::timestamptz, least(told.sending_until, sqlc.arg('now')::timestamptz + sqlc.arg('lock_ms')::bigint * interval '1 ms')),
       'waiting', 0, 0, false, '', sqlc.arg('cause')::text
FROM notice_episodes ep
         CROSS JOIN LATERAL (SELECT count(*) AS notices,
                                    coalesce(max(n.due_at) FILTER (WHERE n.state = 'muted'), sqlc.arg('now')) AS sending_until
                             FROM notices n
                             WHERE n.episode_id = ep.id
                               AND (n.state <> 'muted' OR n.claim_token > 1)) told
WHERE ep.id = ANY (sqlc.arg('ids')::uuid[])
  AND told.notices > 0
ORDER BY ep.id;

-- name: NoticeKeepChannel :exec
-- Copies the channel of a rule to its waiting and dead closing notices, because the rule is deleted
-- or gets another channel. Dead ones are included because a user can retry them.
UPDATE notices n
SET channel = sqlc.arg('channel')
FROM notice_episodes ep
WHERE n.tenant_id = sqlc.arg('tenant_id')
  AND n.state IN ('waiting', 'dead')
  AND n.kind IN ('recovered', 'withdrawn')
  AND n.channel IS NULL
  AND ep.id = n.episode_id
  AND ep.rule_id = sqlc.arg('rule_id');

-- name: NoticeReopen :exec
-- Opens closed episodes again after their rule got another channel, and inserts the opening notices
-- for it. They are sent 5 s after the last notice to the old receiver, because both channels may
-- lead to the same receiver.
WITH moved AS (
    INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders, labels)
    SELECT audit_log_id(sqlc.arg('now')), old.tenant_id, r.id, r.name, old.endpoint_id, old.event, old.opened_at, old.detail,
           CASE WHEN r.remind_ms > 0 THEN sqlc.arg('now')::timestamptz + r.remind_ms * interval '1 ms' ELSE 'infinity' END, 0, e.labels
    FROM notice_episodes old
             JOIN notice_rules r ON r.id = old.rule_id
             JOIN endpoints e ON e.id = old.endpoint_id
    WHERE old.id = ANY (sqlc.arg('ids')::uuid[])
    ORDER BY old.endpoint_id
    ON CONFLICT (endpoint_id, rule_id) WHERE closed_at IS NULL DO NOTHING
    RETURNING id, tenant_id, endpoint_id
)
INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
SELECT audit_log_id(sqlc.arg('now')), moved.tenant_id, moved.id, 'opened', 0, sqlc.arg('now'),
       greatest(sqlc.arg('now'), last.due_at) + interval '5 s', 'waiting', 0, 0, false, ''
FROM moved
         JOIN notice_episodes old ON old.id = ANY (sqlc.arg('ids')::uuid[]) AND old.endpoint_id = moved.endpoint_id
         LEFT JOIN notices last ON last.episode_id = old.id AND last.kind = 'withdrawn';

-- name: NoticeOpen :exec
-- Opens an episode and inserts its notice for every rule that matches one of these events and has
-- no open episode. Rows are inserted in one order, so that concurrent transactions cannot deadlock;
-- the second one finds the episode of the first.
WITH asked AS (
    SELECT unnest(sqlc.arg('events')::text[]) AS event,
           unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
           unnest(sqlc.arg('sizes')::bigint[]) AS size,
           unnest(sqlc.arg('details')::text[]) AS detail
), opened AS (
    INSERT INTO notice_episodes (id, tenant_id, rule_id, rule, endpoint_id, event, opened_at, detail, remind_at, reminders, labels)
    SELECT audit_log_id(sqlc.arg('now')), r.tenant_id, r.id, r.name, e.id, r.event, sqlc.arg('now'), asked.detail::jsonb,
           CASE WHEN r.remind_ms > 0 THEN sqlc.arg('now')::timestamptz + r.remind_ms * interval '1 ms' ELSE 'infinity' END, 0, e.labels
    FROM asked
             JOIN endpoints e ON e.id = asked.endpoint_id
             JOIN notice_rules r ON r.tenant_id = e.tenant_id AND r.event = asked.event
    WHERE r.enabled
      AND asked.size >= r.threshold
      AND (r.endpoint_id IS NULL OR r.endpoint_id = e.id)
      AND e.labels @> r.labels
    ORDER BY e.id, r.id
    ON CONFLICT (endpoint_id, rule_id) WHERE closed_at IS NULL DO NOTHING
    RETURNING id, tenant_id
)
INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
SELECT audit_log_id(sqlc.arg('now')), opened.tenant_id, opened.id, 'opened', 0, sqlc.arg('now'), sqlc.arg('now'), 'waiting', 0, 0, false, ''
FROM opened;

-- name: NoticeClose :exec
-- Closes open episodes if their events are now below the threshold of their rules, and inserts a
-- recovery notice if the rule has recovery. Every statement that changes several episodes locks
-- them in the order of their IDs, so that two transactions cannot deadlock.
WITH asked AS (
    SELECT unnest(sqlc.arg('events')::text[]) AS event,
           unnest(sqlc.arg('endpoint_ids')::uuid[]) AS endpoint_id,
           unnest(sqlc.arg('sizes')::bigint[]) AS size
), over AS (
    SELECT ep.id, r.recovery
    FROM asked
             JOIN notice_episodes ep ON ep.endpoint_id = asked.endpoint_id AND ep.event = asked.event AND ep.closed_at IS NULL
             JOIN notice_rules r ON r.id = ep.rule_id AND asked.size < r.threshold
    ORDER BY ep.id
    FOR UPDATE OF ep
), closed AS (
    UPDATE notice_episodes ep
        SET closed_at = greatest(sqlc.arg('now')::timestamptz, ep.opened_at)
        FROM over
        WHERE ep.id = over.id
        RETURNING ep.id, ep.tenant_id, over.recovery
)
INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
SELECT audit_log_id(sqlc.arg('now')), closed.tenant_id, closed.id, 'recovered', 0, sqlc.arg('now'), sqlc.arg('now'), 'waiting', 0, 0, false, ''
FROM closed
WHERE closed.recovery;

-- name: NoticeEpisodeListOpen :many
-- Returns the open episodes of events late and lost, for the cache of rules, because a run on time
-- or a finished run closes them.
SELECT endpoint_id, event
FROM notice_episodes
WHERE closed_at IS NULL
  AND event IN ('late', 'lost')
LIMIT sqlc.arg('max_rows');

-- name: NoticeWatchLock :one
-- Takes the lock of the watch of episodes, which one program holds at a time, and reports whether
-- any rule or episode exists.
SELECT (EXISTS (SELECT 1 FROM notice_rules) OR EXISTS (SELECT 1 FROM notice_episodes))::boolean AS anything FROM notice_rules_version FOR UPDATE SKIP LOCKED;

-- name: NoticeScanNext :one
-- Returns the rule with an incomplete scan of endpoints that has waited longest.
SELECT *
FROM notice_rules
WHERE scan_cursor IS NOT NULL
  AND scan_from <= sqlc.arg('now')
ORDER BY scan_from
LIMIT 1;

-- name: NoticeScanEndpoints :many
-- Returns the next endpoints of a tenant with their failure counts and the keys of their last runs.
SELECT e.id, s.failure_count, s.last_run_slot, s.last_attempt, s.last_infra_attempt
FROM endpoints e
         JOIN schedules s ON s.endpoint_id = e.id
WHERE e.tenant_id = sqlc.arg('tenant_id')
  AND e.id > sqlc.arg('after')
ORDER BY e.id
LIMIT sqlc.arg('max_rows');

-- name: NoticeFailedRuns :many
-- Returns the failed ones of the given runs. Each costs one index lookup in one partition.
SELECT r.endpoint_id, r.id, r.status, r.reason_code, r.status_code, r.error
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('slots')::timestamptz[]) AS slot) asked
         JOIN runs r ON r.id = asked.id AND r.scheduled_for = asked.slot
WHERE r.tenant_id = sqlc.arg('tenant_id')
  AND r.status IN ('failed', 'timed_out', 'lost');

-- name: NoticeScanAdvance :execrows
-- Stores the cursor of a rule's scan, unless the rule was changed meanwhile.
UPDATE notice_rules SET scan_cursor = sqlc.narg('scan_cursor') WHERE id = sqlc.arg('id') AND version = sqlc.arg('version');

-- name: NoticeOverdue :many
-- Returns endpoints that are late by a rule and have no open episode for it: they are claimable, or
-- their claim has expired without a start. Lateness counts from the end of the last run if that is
-- after the planned time, because a one-off run waits for the run in flight. It scans the indexes on
-- due_at from an instant, or from their low ends.
WITH due AS (
    SELECT s.endpoint_id, s.due_at, s.planned_at, s.last_finished_at
    FROM schedules s
    WHERE s.claimed_by IS NULL
      AND s.tag_set_id = 0
      AND s.priority = 0
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= sqlc.arg('now')::timestamptz
    UNION ALL
    SELECT s.endpoint_id, s.due_at, s.planned_at, s.last_finished_at
    FROM tag_sets t
             CROSS JOIN priorities p
             JOIN schedules s ON s.tag_set_id = t.id AND s.priority = p.priority
    WHERE s.claimed_by IS NULL
      AND (s.tag_set_id <> 0 OR s.priority <> 0)
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= sqlc.arg('now')::timestamptz
    UNION ALL
    SELECT s.endpoint_id, s.due_at, s.planned_at, s.last_finished_at
    FROM schedules s
    WHERE s.claimed_by IS NOT NULL
      AND s.run_id IS NULL
      AND s.due_at >= coalesce(sqlc.narg('from_at')::timestamptz, '-infinity'::timestamptz)
      AND s.due_at <= sqlc.arg('now')::timestamptz
)
SELECT s.endpoint_id, greatest(s.planned_at, s.last_finished_at)::timestamptz AS since
FROM due s
         JOIN endpoints e ON e.id = s.endpoint_id
WHERE s.planned_at <= sqlc.arg('now')::timestamptz - interval '1 s'
  AND EXISTS (SELECT 1
              FROM notice_rules r
              WHERE r.tenant_id = e.tenant_id
                AND r.event = 'late'
                AND r.enabled
                AND greatest(s.planned_at, s.last_finished_at) <= sqlc.arg('now')::timestamptz - r.threshold * interval '1 ms'
                AND (r.endpoint_id IS NULL OR r.endpoint_id = e.id)
                AND e.labels @> r.labels
                AND NOT EXISTS (SELECT 1 FROM notice_episodes ep WHERE ep.endpoint_id = e.id AND ep.rule_id = r.id AND ep.closed_at IS NULL))
ORDER BY s.due_at
LIMIT sqlc.arg('max_rows');

-- name: NoticeUnroutable :many
-- Returns endpoints whose required tags no active worker has had for 30 s, if a rule asks for that
-- and has no open episode of them. Endpoints that are paused or claimed wait for a later look.
SELECT s.endpoint_id, t.unserved_since::timestamptz AS since, t.required
FROM tag_sets t
         JOIN schedules s ON s.claimed_by IS NULL AND (s.tag_set_id <> 0 OR s.priority <> 0) AND s.tag_set_id = t.id
         JOIN endpoints e ON e.id = s.endpoint_id
WHERE t.unserved_since <= sqlc.arg('now')::timestamptz - interval '30 s'
  AND coalesce(s.paused_until <= sqlc.arg('now')::timestamptz, true)
  AND EXISTS (SELECT 1
              FROM notice_rules r
              WHERE r.tenant_id = e.tenant_id
                AND r.event = 'unroutable'
                AND r.enabled
                AND (r.endpoint_id IS NULL OR r.endpoint_id = e.id)
                AND e.labels @> r.labels
                AND NOT EXISTS (SELECT 1 FROM notice_episodes ep WHERE ep.endpoint_id = e.id AND ep.rule_id = r.id AND ep.closed_at IS NULL))
ORDER BY s.endpoint_id
LIMIT sqlc.arg('max_rows');

-- name: NoticeSettled :many
-- Returns open episodes if their condition ended without a run: failures were reset, the endpoint
-- was resumed or archived, a suggestion was decided, the breaker of the host was closed, the dead
-- letters were handled, a worker serves the tags, or the rule was deleted or disabled. silent marks those that did not recover,
-- because the endpoint or the rule is gone.
SELECT ep.id, ep.endpoint_id, ep.event, (s.endpoint_id IS NULL OR r.id IS NULL OR NOT r.enabled)::boolean AS silent,
       (s.endpoint_id IS NULL)::boolean AS archived, coalesce(r.recovery, false)::boolean AS recovery, coalesce(r.channel ->> 'kind', '')::text AS channel_kind
FROM notice_episodes ep
         LEFT JOIN schedules s ON s.endpoint_id = ep.endpoint_id
         LEFT JOIN notice_rules r ON r.id = ep.rule_id
WHERE ep.closed_at IS NULL
  AND (s.endpoint_id IS NULL OR r.id IS NULL OR NOT r.enabled
    OR ep.event = 'failures' AND s.failure_count = 0
    OR ep.event = 'paused' AND coalesce(s.paused_until <= sqlc.arg('now'), true) AND coalesce(s.retry_after <= sqlc.arg('now'), true)
    OR ep.event = 'suggestion' AND NOT EXISTS (SELECT 1
                                               FROM planner_suggestions g
                                               WHERE g.endpoint_id = ep.endpoint_id AND g.state = 'pending' AND g.expires_at > sqlc.arg('now'))
    OR ep.event = 'host_open' AND NOT EXISTS (SELECT 1
                                              FROM hosts h
                                              WHERE h.host = ep.detail ->> 'host'
                                                AND h.scope IN (ep.tenant_id, '00000000-0000-0000-0000-000000000000')
                                                AND h.state <> 'closed')
    OR ep.event = 'unroutable' AND NOT EXISTS (SELECT 1 FROM tag_sets t WHERE t.id = s.tag_set_id AND t.unserved_since IS NOT NULL)
    OR ep.event = 'dead_letter' AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE d.endpoint_id = ep.endpoint_id AND d.state = 'open'))
ORDER BY ep.id
LIMIT sqlc.arg('max_rows');

-- name: NoticeCloseSilently :many
-- Closes episodes without a recovery notice, mutes their waiting notices, and returns the episodes
-- that were still open. It locks rows in the order of NoticeClose.
WITH open AS (
    SELECT o.id
    FROM notice_episodes o
    WHERE o.id = ANY (sqlc.arg('ids')::uuid[]) AND o.closed_at IS NULL
    ORDER BY o.id
    FOR UPDATE
), closed AS (
    UPDATE notice_episodes ep
        SET closed_at = greatest(sqlc.arg('now')::timestamptz, ep.opened_at)
        FROM open
        WHERE ep.id = open.id
        RETURNING ep.id
), muted AS (
    UPDATE notices n
        SET state = 'muted', ended_at = sqlc.arg('now'), error = 'the endpoint or the rule is gone', claim_token = claim_token + 1
        FROM closed
        WHERE n.episode_id = closed.id
          AND n.state = 'waiting'
)
SELECT id FROM closed;

-- name: NoticeRemind :execrows
-- Inserts the due reminders. If an earlier notice of the episode still waits, the reminder waits
-- too. Locked episodes are skipped, because a finish may be about to close them; the next pass
-- looks again. If the rule no longer has reminders, an Alertmanager gets one last reminder, because
-- it would otherwise close the alert at the promised time.
WITH due AS (
    SELECT ep.id, r.remind_ms
    FROM notice_episodes ep
             JOIN notice_rules r ON r.id = ep.rule_id
    WHERE ep.closed_at IS NULL
      AND ep.remind_at <= sqlc.arg('now')
      AND (r.remind_ms > 0 OR r.channel ->> 'kind' = 'alertmanager')
      AND NOT EXISTS (SELECT 1 FROM notices n WHERE n.episode_id = ep.id AND n.state = 'waiting')
    ORDER BY ep.remind_at
    LIMIT sqlc.arg('max_rows')
    FOR UPDATE OF ep SKIP LOCKED
), reminded AS (
    UPDATE notice_episodes ep
        SET reminders = ep.reminders + 1,
            remind_at = CASE WHEN due.remind_ms > 0 THEN sqlc.arg('now')::timestamptz + due.remind_ms * interval '1 ms' ELSE 'infinity' END
        FROM due
        WHERE ep.id = due.id AND ep.closed_at IS NULL
        RETURNING ep.id, ep.tenant_id, ep.reminders
)
INSERT INTO notices (id, tenant_id, episode_id, kind, number, created_at, due_at, state, attempts, claim_token, held, error)
SELECT audit_log_id(sqlc.arg('now')), reminded.tenant_id, reminded.id, 'reminder', reminded.reminders, sqlc.arg('now'), sqlc.arg('now'), 'waiting', 0, 0, false, ''
FROM reminded;

-- name: NoticeClaim :many
-- Claims due notices under a fencing token. A notice waits for earlier notices of its episode. The
-- number per rule and per tenant is bounded, so that a slow receiver delays no other. The statement
-- looks at the oldest look_rows notices, and skips rules and tenants with enough notices in flight.
UPDATE notices n
SET due_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('lock_ms')::bigint * interval '1 ms',
    claim_token = n.claim_token + 1
WHERE n.id = ANY (ARRAY(
    SELECT w.id
    FROM notices w
    WHERE w.id = ANY (ARRAY(
        SELECT ranked.id
        FROM (SELECT f.id, f.due_at,
                     row_number() OVER (PARTITION BY f.rule_id ORDER BY f.due_at, f.id) AS of_rule,
                     row_number() OVER (PARTITION BY f.tenant_id ORDER BY f.due_at, f.id) AS of_tenant
              FROM (SELECT d.id, d.tenant_id, d.due_at, ep.rule_id
                    FROM notices d
                             JOIN notice_episodes ep ON ep.id = d.episode_id
                    WHERE d.state = 'waiting'
                      AND d.due_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
                      AND d.tenant_id <> ALL (sqlc.arg('full_tenants')::uuid[])
                      AND ep.rule_id <> ALL (sqlc.arg('full_rules')::uuid[])
                      AND NOT EXISTS (SELECT 1 FROM notices b -- Looks up by episode, not through all waiting notices.
                                      WHERE b.episode_id = d.episode_id AND b.ended_at IS NULL
                                        AND (b.kind = 'recovered', b.number) < (d.kind = 'recovered', d.number))
                    ORDER BY d.due_at
                    LIMIT sqlc.arg('look_rows')) f) ranked
        WHERE ranked.of_rule <= sqlc.arg('per_rule')::int AND ranked.of_tenant <= sqlc.arg('per_tenant')::int
        ORDER BY ranked.due_at
        LIMIT sqlc.arg('max_rows')))
      AND w.state = 'waiting'
      AND w.due_at <= coalesce(sqlc.narg('now')::timestamptz, clock_timestamp())
    FOR UPDATE SKIP LOCKED))
RETURNING n.id, n.claim_token;

-- name: NoticeListClaimed :many
-- Returns claimed notices with all data for their messages. Labels are those of the endpoint when
-- the episode opened. held_until is the end of a matching maintenance window. untold: the opening
-- notice was muted without an attempt, so the later notices of the episode are muted too. behind: a
-- closing notice of an earlier episode is still queued for the same channel. overtaken: the opening
-- notice of a later episode may have arrived, so this closing notice is obsolete. The later alert
-- must have the same labels, because other labels make another alert.
SELECT n.id, n.tenant_id, n.kind, n.number, n.created_at, n.attempts, n.claim_token, n.held, n.cause, n.channel AS own_channel,
       ep.id AS episode_id, ep.rule_id, ep.rule, ep.event, ep.endpoint_id, ep.opened_at, ep.closed_at, ep.detail,
       e.name AS endpoint_name, e.spec, coalesce(ep.labels, e.labels)::jsonb AS endpoint_labels, t.secrets_version,
       r.channel, r.remind_ms,
       (n.kind NOT IN ('opened', 'withdrawn') AND EXISTS (SELECT 1
                                       FROM notices o
                                       WHERE o.episode_id = n.episode_id AND o.kind = 'opened' AND o.state = 'muted' AND o.attempts = 0))::boolean AS untold,
       (n.kind = 'opened' AND EXISTS (SELECT 1
                                       FROM notice_episodes earlier
                                                JOIN notices o ON o.episode_id = earlier.id AND o.kind IN ('recovered', 'withdrawn') AND o.channel IS NULL
                                       WHERE earlier.tenant_id = ep.tenant_id AND earlier.endpoint_id = ep.endpoint_id AND earlier.rule_id = ep.rule_id
                                         AND earlier.id < ep.id AND o.state = 'waiting'))::boolean AS behind,
       (n.kind IN ('recovered', 'withdrawn') AND n.channel IS NULL AND EXISTS (SELECT 1
                                       FROM notice_episodes later
                                                JOIN notices o ON o.episode_id = later.id AND o.kind = 'opened'
                                       WHERE later.tenant_id = ep.tenant_id AND later.endpoint_id = ep.endpoint_id AND later.rule_id = ep.rule_id
                                         AND later.id > ep.id AND o.attempts > 0
                                         AND NOT EXISTS (SELECT 1
                                                         FROM jsonb_array_elements_text(coalesce(r.channel -> 'alertLabels', '[]')) AS chosen (name)
                                                         WHERE later.labels ->> chosen.name IS DISTINCT FROM ep.labels ->> chosen.name)))::boolean AS overtaken,
       coalesce((SELECT max(w.ends_at)
                 FROM maintenance_windows w
                 WHERE w.tenant_id = n.tenant_id
                   AND w.starts_at <= sqlc.arg('now')::timestamptz
                   AND w.ends_at > sqlc.arg('now')::timestamptz
                   AND (w.endpoint_id IS NULL OR w.endpoint_id = e.id)
                   AND e.labels @> w.labels), '1970-01-01 00:00:00+00')::timestamptz AS held_until
FROM notices n
         JOIN notice_episodes ep ON ep.id = n.episode_id
         JOIN endpoints e ON e.id = ep.endpoint_id
         JOIN tenants t ON t.id = n.tenant_id
         LEFT JOIN notice_rules r ON r.id = ep.rule_id
WHERE n.id = ANY (sqlc.arg('ids')::uuid[])
ORDER BY n.id;

-- name: NoticeEnd :execrows
-- Ends a notice if its claim still holds.
UPDATE notices
SET state = sqlc.arg('state'), ended_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()), attempts = sqlc.arg('attempts'),
    status_code = sqlc.narg('status_code'), error = sqlc.arg('error'), claim_token = claim_token + 1
WHERE id = sqlc.arg('id')
  AND claim_token = sqlc.arg('claim_token')
  AND state = 'waiting';

-- name: NoticePostpone :execrows
-- Postpones a notice if its claim still holds.
UPDATE notices
SET due_at = coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) + sqlc.arg('wait_ms')::bigint * interval '1 ms', attempts = sqlc.arg('attempts'),
    status_code = sqlc.narg('status_code'), error = sqlc.arg('error'), held = held OR sqlc.arg('held')::boolean, claim_token = claim_token + 1
WHERE id = sqlc.arg('id')
  AND claim_token = sqlc.arg('claim_token')
  AND state = 'waiting';

-- name: NoticeList :many
SELECT n.id, n.kind, n.number, n.created_at, n.due_at, n.state, n.attempts, n.held, n.ended_at, n.status_code, n.error, n.cause,
       ep.id AS episode_id, ep.rule, ep.event, ep.endpoint_id, ep.opened_at, ep.closed_at, ep.detail, e.name AS endpoint_name
FROM notices n
         JOIN notice_episodes ep ON ep.id = n.episode_id
         JOIN endpoints e ON e.id = ep.endpoint_id
WHERE n.tenant_id = sqlc.arg('tenant_id')
  AND (sqlc.narg('before')::uuid IS NULL OR n.id < sqlc.narg('before'))
  AND (sqlc.narg('state')::text IS NULL OR n.state = sqlc.narg('state'))
  AND (sqlc.narg('rule')::text IS NULL OR ep.rule = sqlc.narg('rule'))
  AND (sqlc.narg('endpoint_id')::uuid IS NULL OR ep.endpoint_id = sqlc.narg('endpoint_id'))
ORDER BY n.id DESC
LIMIT sqlc.arg('max_rows');

-- name: NoticeGet :one
SELECT n.id, n.kind, n.number, n.created_at, n.due_at, n.state, n.attempts, n.held, n.ended_at, n.status_code, n.error, n.cause,
       ep.id AS episode_id, ep.rule, ep.event, ep.endpoint_id, ep.opened_at, ep.closed_at, ep.detail, e.name AS endpoint_name
FROM notices n
         JOIN notice_episodes ep ON ep.id = n.episode_id
         JOIN endpoints e ON e.id = ep.endpoint_id
WHERE n.tenant_id = sqlc.arg('tenant_id')
  AND n.id = sqlc.arg('id');

-- name: NoticeRetry :execrows
-- Queues a dead notice again under the same ID.
UPDATE notices
SET state = 'waiting', ended_at = NULL, attempts = 0, due_at = sqlc.arg('now'), claim_token = claim_token + 1
WHERE tenant_id = sqlc.arg('tenant_id')
  AND id = sqlc.arg('id')
  AND state = 'dead';

-- name: NoticeBacklog :one
-- Counts the waiting notices up to max_rows, and returns the age of the oldest one. The age
-- excludes notices held by maintenance windows.
SELECT count(*) AS waiting,
       coalesce(extract(epoch FROM max(coalesce(sqlc.narg('now')::timestamptz, clock_timestamp()) - n.created_at) FILTER (WHERE NOT n.held)), 0)::double precision AS oldest_seconds
FROM (SELECT w.created_at, w.held FROM notices w WHERE w.state = 'waiting' ORDER BY w.due_at LIMIT sqlc.arg('max_rows')) AS n;

-- name: NoticeEpisodeDropBefore :execrows
-- Deletes old closed episodes with their notices, at most max_rows.
DELETE FROM notice_episodes
WHERE id = ANY (ARRAY(SELECT old.id FROM notice_episodes old WHERE old.closed_at < sqlc.arg('before') ORDER BY old.closed_at LIMIT sqlc.arg('max_rows')));

-- name: WindowPut :one
INSERT INTO maintenance_windows (tenant_id, name, endpoint_id, labels, starts_at, ends_at, reason, created_at, created_by)
VALUES (sqlc.arg('tenant_id'), sqlc.arg('name'), sqlc.narg('endpoint_id'), sqlc.arg('labels'), sqlc.arg('starts_at'), sqlc.arg('ends_at'), sqlc.arg('reason'), sqlc.arg('now'), sqlc.arg('author'))
ON CONFLICT (tenant_id, name) DO UPDATE
    SET endpoint_id = excluded.endpoint_id, labels = excluded.labels, starts_at = excluded.starts_at, ends_at = excluded.ends_at, reason = excluded.reason
RETURNING *;

-- name: WindowGet :one
SELECT * FROM maintenance_windows WHERE tenant_id = sqlc.arg('tenant_id') AND name = sqlc.arg('name') FOR UPDATE;

-- name: WindowCount :one
SELECT count(*) FROM maintenance_windows WHERE tenant_id = sqlc.arg('tenant_id');

-- name: WindowList :many
SELECT *
FROM maintenance_windows
WHERE tenant_id = sqlc.arg('tenant_id')
  AND name > sqlc.arg('after')
ORDER BY name
LIMIT sqlc.arg('max_rows');

-- name: WindowDelete :execrows
DELETE FROM maintenance_windows WHERE tenant_id = sqlc.arg('tenant_id') AND name = sqlc.arg('name');

-- name: NoticeRelease :exec
-- Makes held notices of a tenant due, because a maintenance window was changed or deleted.
UPDATE notices SET due_at = sqlc.arg('now') WHERE tenant_id = sqlc.arg('tenant_id') AND state = 'waiting' AND held AND due_at > sqlc.arg('now');
