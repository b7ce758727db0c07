package items_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// TestTheDatabaseRefusesPoison writes by SQL what no API call may write: values that would break a
// batch, a loop or a client.
func TestTheDatabaseRefusesPoison(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	b.StartOne(t, storetest.Worker{1})
	for name, sql := range map[string]string{
		"DueBeforeTime":            "UPDATE schedules SET due_at = '0001-01-01'",
		"DueAfterTime":             "UPDATE schedules SET due_at = '12345-01-01'",
		"DueNever":                 "UPDATE schedules SET due_at = 'infinity'",
		"PlannedNever":             "UPDATE schedules SET planned_at = '-infinity'",
		"SlotInTheYear1":           "UPDATE schedules SET slot = '0001-01-01'",
		"AttemptZero":              "UPDATE schedules SET attempt = 0",
		"AttemptEleven":            "UPDATE schedules SET attempt = 11",
		"UnknownSource":            "UPDATE schedules SET source = 'whim'",
		"NegativeToken":            "UPDATE schedules SET claim_token = -1",
		"NegativeFailures":         "UPDATE schedules SET failure_count = -1",
		"LockOfNoTime":             "UPDATE schedules SET lock_ms = 0",
		"LockOfDays":               "UPDATE schedules SET lock_ms = 86400000",
		"NoBaseline":               "UPDATE endpoints SET spec = spec - 'baselineIntervalMs'",
		"TwoBaselines":             `UPDATE endpoints SET spec = spec || '{"baselineCron": "* * * * *"}'`,
		"NegativeInterval":         `UPDATE endpoints SET spec = spec || '{"baselineIntervalMs": -60000}'`,
		"IntervalThatOverflows":    `UPDATE endpoints SET spec = spec || '{"baselineIntervalMs": 9223372036854775807}'`,
		"IntervalThatIsAText":      `UPDATE endpoints SET spec = spec || '{"baselineIntervalMs": "60000"}'`,
		"JitterOfHalfAMillisecond": `UPDATE endpoints SET spec = spec || '{"jitterMs": 0.5}'`,
		"ClampsInWrongOrder":       `UPDATE endpoints SET spec = spec || '{"minIntervalMs": 60000, "maxIntervalMs": 59999}'`,
		"TimeoutAboveExecution":    `UPDATE endpoints SET spec = spec || '{"timeoutMs": 60001, "maxExecutionTimeMs": 60000}'`,
		"BackoffAboveItsMaximum":   `UPDATE endpoints SET spec = spec || '{"retry": {"maxAttempts": 1, "backoffMs": 1001, "maxBackoffMs": 1000}}'`,
		"LabelsThatAreAList":       `UPDATE endpoints SET spec = spec || '{"labels": ["a"]}'`,
		"LabelsThatHoldAnObject":   `UPDATE endpoints SET spec = spec || '{"labels": {"a": {"b": 1}}}'`,
		"HeadersThatHoldANumber":   `UPDATE endpoints SET spec = spec || '{"headers": {"a": 1}}'`,
		"HeadersThatAreNull":       `UPDATE endpoints SET spec = spec || '{"headers": null}'`,
		"QueryThatHoldsANumber":    `UPDATE endpoints SET spec = spec || '{"query": {"a": 1}}'`,
		"URLOfAFile":               `UPDATE endpoints SET spec = spec || '{"url": "file:///etc/passwd"}'`,
		"MethodOfAnotherWorld":     `UPDATE endpoints SET spec = spec || '{"method": "CONNECT"}'`,
		"VersionZero":              "UPDATE endpoints SET version = 0",
		"KeyWithASpace":            `UPDATE endpoints SET spec = spec || '{"key": "a b"}'`,
		"NoName":                   `UPDATE endpoints SET spec = spec || '{"name": ""}'`,
		"NameThatIsANumber":        `UPDATE endpoints SET spec = spec || '{"name": 1}'`,
		"LongDescription":          "UPDATE endpoints SET spec = spec || jsonb_build_object('description', repeat('x', 4001))",
		"LongURL":                  "UPDATE endpoints SET spec = spec || jsonb_build_object('url', 'http://target.example/' || repeat('x', 2048))",
		"LargeBody":                "UPDATE endpoints SET spec = spec || jsonb_build_object('body', repeat('x', 262145))",
		"DocumentThatIsAList":      "UPDATE endpoints SET spec = '[]'",
		"LongCron":                 "UPDATE endpoints SET spec = spec - 'baselineIntervalMs' || jsonb_build_object('baselineCron', repeat('*', 256))",
		"NoTimeZone":               `UPDATE endpoints SET spec = spec || '{"timezone": ""}'`,
		"UnknownGap":               `UPDATE endpoints SET spec = spec || '{"dst": {"gap": "both", "overlap": "once"}}'`,
		"UnknownOverlap":           `UPDATE endpoints SET spec = spec || '{"dst": {"gap": "run", "overlap": "skip"}}'`,
		"StartBeforeTime":          `UPDATE endpoints SET spec = spec || '{"startAt": "2019-12-31T23:59:59Z"}'`,
		"StartNever":               `UPDATE endpoints SET spec = spec || '{"startAt": "infinity"}'`,
		"UnknownOverlapOfRuns":     `UPDATE endpoints SET spec = spec || '{"overlap": "parallel"}'`,
		"UnknownCatchUp":           `UPDATE endpoints SET spec = spec || '{"catchUp": "twice"}'`,
		"MinOfLessThanASecond":     `UPDATE endpoints SET spec = spec || '{"minIntervalMs": 999}'`,
		"MaxOfMoreThanAYear":       `UPDATE endpoints SET spec = spec || '{"maxIntervalMs": 31622400001}'`,
		"NegativeJitter":           `UPDATE endpoints SET spec = spec || '{"jitterMs": -1}'`,
		"NoTimeout":                `UPDATE endpoints SET spec = spec || '{"timeoutMs": 0}'`,
		"ExecutionOfHours":         `UPDATE endpoints SET spec = spec || '{"maxExecutionTimeMs": 1800001}'`,
		"ResponsesThatAreHuge":     `UPDATE endpoints SET spec = spec || '{"maxResponseKb": 1025}'`,
		"RedirectsWithoutEnd":      `UPDATE endpoints SET spec = spec || '{"followRedirects": 11}'`,
		"NoSuccess":                `UPDATE endpoints SET spec = spec || '{"success": ""}'`,
		"NoAttempt":                `UPDATE endpoints SET spec = spec || '{"retry": {"maxAttempts": 0, "backoffMs": 1, "maxBackoffMs": 1}}'`,
		"NoBackoff":                `UPDATE endpoints SET spec = spec || '{"retry": {"maxAttempts": 1, "backoffMs": 0, "maxBackoffMs": 1}}'`,
		"BackoffOfDays":            `UPDATE endpoints SET spec = spec || '{"retry": {"maxAttempts": 1, "backoffMs": 1, "maxBackoffMs": 86400001}}'`,
		"NoRetry":                  "UPDATE endpoints SET spec = spec - 'retry'",
		"UnknownPlanner":           `UPDATE endpoints SET spec = spec || '{"planner": "dream"}'`,
		"HintWithoutInterval":      "INSERT INTO hints (endpoint_id, kind, expires_at, reason, author, created_at) SELECT id, 'interval', now(), '', '', now() FROM endpoints",
		"HintOfNoTime": "INSERT INTO hints (endpoint_id, kind, interval_ms, expires_at, reason, author, created_at) " +
			"SELECT id, 'interval', 0, now(), '', '', now() FROM endpoints",
		"HintThatNeverExpires": "INSERT INTO hints (endpoint_id, kind, interval_ms, expires_at, reason, author, created_at) " +
			"SELECT id, 'interval', 1000, 'infinity', '', '', now() FROM endpoints",
		"ARunNobodyHolds":   "UPDATE schedules SET run_id = gen_random_uuid(), started_at = now(), deadline_at = now(), claimed_by = NULL",
		"ARunWithoutAStart": "UPDATE schedules SET run_id = gen_random_uuid(), started_at = NULL, deadline_at = now(), claimed_by = gen_random_uuid(), claimed_at = now()",
		"ARunWithoutItsEnd": "UPDATE schedules SET run_id = gen_random_uuid(), started_at = now(), deadline_at = NULL, claimed_by = gen_random_uuid(), claimed_at = now()",
		"ACancelOfNothing":  "UPDATE schedules SET run_id = NULL, started_at = NULL, deadline_at = NULL, cancel_requested_at = now(), cancel_requested_by = '', cancel_reason = ''",
		"AWorkerOfAnotherState": "INSERT INTO workers (id, name, version, state, slots, busy, started_at, heartbeat_at) " +
			"VALUES (gen_random_uuid(), '', '', 'zombie', 1, 0, now(), now())",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := b.Pool.Exec(t.Context(), sql)
			var refused *pgconn.PgError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "23", refused.Code[:2], "%s", refused)
		})
	}
}

func TestTheDatabaseTakesAnEndpointAtItsBounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	for _, sql := range []string{
		`UPDATE endpoints SET spec = spec - 'key' || jsonb_build_object('name', repeat('x', 255), 'description', repeat('x', 4000),
			'url', rpad('https://target.example/', 2048, 'x'), 'body', repeat('x', 262144), 'success', repeat('x', 255)) ||
			'{"labels": {"a": "b"}, "headers": {"A": "b"}, "query": {"a": "b"}, "method": "OPTIONS", "unknown": {"a": [1]},
			"baselineIntervalMs": 31622400000, "minIntervalMs": 31622400000, "maxIntervalMs": 31622400000, "jitterMs": 86400000,
			"timeoutMs": 1800000, "maxExecutionTimeMs": 1800000, "maxResponseKb": 1024, "followRedirects": 10,
			"retry": {"maxAttempts": 10, "backoffMs": 3600000, "maxBackoffMs": 86400000}, "startAt": "2199-12-31T23:59:59Z",
			"dst": {"gap": "skip", "overlap": "both"}, "catchUp": "all", "planner": "off"}'`,
		`UPDATE endpoints SET spec = spec - ARRAY ['baselineIntervalMs', 'maxIntervalMs', 'description', 'body', 'labels'] ||
			jsonb_build_object('key', rpad('a', 100, '._-'), 'baselineCron', rpad('*', 255, ' *')) ||
			'{"name": "x", "url": "http://a", "method": "GET", "minIntervalMs": 1000, "jitterMs": 0, "timeoutMs": 1, "maxExecutionTimeMs": 1000,
			"maxResponseKb": 0, "followRedirects": 0, "success": "x", "retry": {"maxAttempts": 1, "backoffMs": 1, "maxBackoffMs": 1},
			"startAt": "2020-01-01T00:00:00Z", "dst": {"gap": "run", "overlap": "once"}, "catchUp": "skip", "planner": "suggest"}'`,
		`UPDATE endpoints SET spec = spec - ARRAY ['baselineCron', 'minIntervalMs', 'startAt'] || '{"baselineIntervalMs": 1000, "maxIntervalMs": 1000}'`,
	} {
		require.EqualValues(t, 1, b.Exec(t, sql))
	}
}

// unusable is configuration that satisfies every check and still cannot be used.
var unusable = map[string]string{
	"Cron": `UPDATE endpoints SET spec = spec - 'baselineIntervalMs' || '{"baselineCron": "61 * * * *"}', version = version + 1 WHERE id = $1`,
	"Zone": `UPDATE endpoints SET spec = spec - 'baselineIntervalMs' || '{"baselineCron": "@hourly", "timezone": "Europe/Nowhere"}',
		version = version + 1 WHERE id = $1`,
	"Success": `UPDATE endpoints SET spec = spec || '{"success": "often"}', version = version + 1 WHERE id = $1`,
	"Rule": `UPDATE endpoints SET spec = spec || '{"successRules": [{"type": "body", "op": "matches", "value": "a{0,999}b"}]}',
		version = version + 1 WHERE id = $1`,
	"Redact": `UPDATE endpoints SET spec = spec || '{"redact": [{"pattern": "ab{0,999}c"}]}', version = version + 1 WHERE id = $1`,
}

// spoil makes the configuration of one endpoint unusable, past the API.
func (b *bundle) spoil(t *testing.T, id endpoints.ID, sql string) {
	t.Helper()
	require.EqualValues(t, 1, b.Exec(t, sql, [16]byte(id)))
	require.EqualValues(t, 1, b.Exec(t, "UPDATE schedules SET version = version + 1 WHERE endpoint_id = $1", [16]byte(id)))
}

// quarantined checks that an endpoint is out of the way and says why.
func (b *bundle) quarantined(t *testing.T, id endpoints.ID) {
	t.Helper()
	state := b.Get(t, id).State
	require.Equal(t, governor.Indefinite, state.PausedUntil)
	require.Contains(t, state.PauseReason, "quarantined: ")
	require.Equal(t, governor.Indefinite, state.Due.At)
	decided, err := b.Service.Explain(t.Context(), storetest.Tenant, id)
	require.NoError(t, err)
	require.Equal(t, endpoints.CauseQuarantine, decided.Cause, "the ledger knows of every due time")
	require.Equal(t, state.Due.At, decided.Due.At)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM events WHERE kind = 'endpoint.paused' AND detail->>'reason' LIKE 'quarantined: %'"), "who watches is told")
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, `SELECT count(*) FROM audit_log WHERE action = 'pause' AND actor = 'quarantine' AND object_id = $1
		AND key_id IS NULL AND before->>'pauseReason' IS NULL AND after->>'pauseReason' LIKE 'quarantined: %'`, id.String()), "and so is the log of changes")
}

func TestAnUnusableConfigurationQuarantinesOnlyItself(t *testing.T) {
	t.Parallel()
	for name, sql := range unusable {
		t.Run("WhenClaimed"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			sound, sick := b.Register(t, nil), b.Register(t, nil)
			b.spoil(t, sick.ID, sql)
			list := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
			require.Len(t, list, 2)
			targets, err := b.Executions.Targets(t.Context(), list)
			require.NoError(t, err)
			require.Len(t, targets, 1)
			require.Contains(t, targets, [16]byte(sound.ID))
			b.quarantined(t, sick.ID)
			require.Len(t, b.Start(t, storetest.Worker{1}, list...), 1)
		})
		t.Run("WhenFinished"+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			sound, sick := b.Register(t, nil), b.Register(t, nil)
			list := b.Claim(t, storetest.Worker{1}, storetest.Horizon)
			b.finishBoth(t, list, func() { b.spoil(t, sick.ID, sql) })
			b.quarantined(t, sick.ID)
			require.Equal(t, sound.State.Due.Slot.Add(time.Minute), b.Get(t, sound.ID).State.Due.At)
			all, _, err := b.Service.List(t.Context(), endpoints.Filter{TenantID: storetest.Tenant.TenantID, Limit: 10})
			require.NoError(t, err)
			require.Len(t, all, 2, "and both can still be listed")
		})
	}
}

// finishBoth starts two claims, lets something happen, and finishes both in one batch.
func (b *bundle) finishBoth(t *testing.T, list []claims.Claim, meanwhile func()) {
	t.Helper()
	started := b.Start(t, storetest.Worker{1}, list...)
	require.Len(t, started, 2)
	meanwhile()
	var finished []runs.Run
	for _, s := range started {
		for _, c := range list {
			if c.EndpointID == s.EndpointID {
				finished = append(finished, storetest.Succeed(storetest.Worker{1}, c, s))
			}
		}
	}
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, finished...).Late)
}

// TestAQuarantineLeavesARunToItsFinish looks for a target while a run of the endpoint is in flight:
// a replan would end the run without a record.
func TestAQuarantineLeavesARunToItsFinish(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	c := b.ClaimOne(t, storetest.Worker{1})
	started := b.Start(t, storetest.Worker{1}, c)
	require.Len(t, started, 1)
	b.spoil(t, e.ID, unusable["Success"])
	old := c
	old.Version++
	targets, err := b.Executions.Targets(t.Context(), []claims.Claim{old})
	require.NoError(t, err)
	require.Empty(t, targets)
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, storetest.Succeed(storetest.Worker{1}, c, started[0])).Late)
	require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs WHERE status = 'succeeded'"))
	b.quarantined(t, e.ID)
}

// TestAQuarantineThatComesLateLeavesAMendedEndpointAlone mends an endpoint while its quarantine
// waits for the row.
func TestAQuarantineThatComesLateLeavesAMendedEndpointAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	b.spoil(t, e.ID, unusable["Success"])
	c := b.ClaimOne(t, storetest.Worker{1})
	tx, err := b.Pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT 1 FROM schedules FOR UPDATE")
	require.NoError(t, err)
	looked := make(chan error, 1)
	go func() {
		_, err := b.Executions.Targets(t.Context(), []claims.Claim{c})
		looked <- err
	}()
	b.AwaitLockWait(t)
	_, err = tx.Exec(t.Context(), `UPDATE endpoints SET spec = spec || '{"success": "2xx"}', version = version + 1`)
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "UPDATE schedules SET version = version + 1, claim_token = claim_token + 1, claimed_by = NULL")
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-looked)
	require.Zero(t, b.Get(t, e.ID).State.PausedUntil)
}

func TestAQuarantineEndsWhenTheEndpointIsMendedAndResumed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	b.spoil(t, e.ID, unusable["Success"])
	_, err := b.Executions.Targets(t.Context(), []claims.Claim{b.ClaimOne(t, storetest.Worker{1})})
	require.NoError(t, err)
	b.quarantined(t, e.ID)
	b.Edit(t, e.ID, func(s *endpoints.Spec) { s.Success = "2xx" })
	storetest.Changes["Resume"](b.Bundle, t, e.ID)
	c := b.ClaimOne(t, storetest.Worker{1})
	targets, err := b.Executions.Targets(t.Context(), []claims.Claim{c})
	require.NoError(t, err)
	require.Len(t, targets, 1)
	require.Len(t, b.Start(t, storetest.Worker{1}, c), 1)
}

// TestRefusedRowIsIdentifiedBySQLSTATE: the worker's fallback to single rows relies on the
// SQLSTATE.
func TestRefusedRowIsIdentifiedBySQLSTATE(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	run.Outcome.StatusCode = 1000
	_, err := b.Executions.Finish(t.Context(), dispatch.Finish{Worker: storetest.Worker{1}, Runs: []runs.Run{run}, LockTTL: time.Minute})
	require.ErrorContains(t, err, "the database refuses a value")
	run.Outcome.StatusCode = 999
	require.Empty(t, b.Finish(t, storetest.Worker{1}, 0, run).Late)
}
