package items_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"rubato/internal/runs"
	"rubato/internal/store/storetest"
)

// illegal is the SQLSTATE of a move that a trigger refuses.
const illegal = "23000"

// unheld is the holder of a suspended run.
const unheld = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"

// stand returns the columns of a schedule in a state, held by one worker or another, with one run
// or another.
func stand(s runs.State, token int, newOwner, newRun bool) string {
	owner, run := "'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-00000000000a'"
	if newOwner {
		owner = "'00000000-0000-0000-0000-000000000002'"
	}
	if newRun {
		run = "'00000000-0000-0000-0000-00000000000b'"
	}
	if s == runs.Suspended {
		owner = unheld
	}
	held, started := owner+"::uuid, now()", run+"::uuid, now(), now()"
	if !s.Held() && s != runs.Suspended {
		held = "NULL, NULL"
	}
	if !s.Running() {
		started = "NULL, NULL, NULL"
	}
	return fmt.Sprintf("ROW(%d, %s, %s, %t)", token, held, started, s == runs.Leaving)
}

const standing = "(claim_token, claimed_by, claimed_at, run_id, started_at, deadline_at, archived)"

// changesOf returns every change from one state to another: each way of the token, the holder and
// the run.
func changesOf(from, to runs.State) (list []runs.TransitionAttempt) {
	rises, owners, flights := []int{-1, 0, 1}, []bool{false, true}, []bool{false, true}
	if from == runs.Gone || to == runs.Gone {
		rises = []int{0}
	}
	if !from.Held() || !to.Held() {
		owners = []bool{false}
	}
	if !from.Running() || !to.Running() {
		flights = []bool{false}
	}
	for _, rise := range rises {
		for _, owner := range owners {
			for _, flight := range flights {
				list = append(list, runs.TransitionAttempt{From: from, To: to, TokenDelta: rise, NewOwner: owner, NewRun: flight})
			}
		}
	}
	return list
}

// TestPostgresAllowsOnlyLegalTransitions tries every transition on a row and compares the
// database's verdict with the table in Go.
func TestPostgresAllowsOnlyLegalTransitions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	b.Exec(t, "CREATE TABLE kept AS SELECT * FROM schedules")
	tried, legal := 0, 0
	for _, from := range runs.States() {
		for _, to := range runs.States() {
			for _, c := range changesOf(from, to) {
				if from == runs.Gone && to == runs.Gone {
					continue
				}
				tried++
				err := b.try(t, c)
				if c.Legal() {
					legal++
					require.NoError(t, err, "%+v", c)
					continue
				}
				refused, is := errors.AsType[*pgconn.PgError](err)
				require.True(t, is, "the database allows %+v", c)
				require.Equal(t, illegal, refused.Code, "%+v: %s", c, refused.Message)
			}
		}
	}
	require.Equal(t, 151, tried)
	require.Equal(t, 27, legal)
}

// try brings the row into the state before a change, tries the change, and takes it back.
func (b *bundle) try(t *testing.T, c runs.TransitionAttempt) error {
	t.Helper()
	b.ExecUntriggered(t, "DELETE FROM schedules", "INSERT INTO schedules SELECT * FROM kept",
		"UPDATE schedules SET "+standing+" = "+stand(c.From, 10, false, false))
	var change string
	switch {
	case c.From == runs.Gone:
		b.ExecUntriggered(t, "DELETE FROM schedules", "DROP TABLE IF EXISTS made", "CREATE TABLE made AS SELECT * FROM kept", "UPDATE made SET "+standing+" = "+stand(c.To, 10, false, false))
		change = "INSERT INTO schedules SELECT * FROM made"
	case c.To == runs.Gone:
		change = "DELETE FROM schedules"
	default:
		change = "UPDATE schedules SET " + standing + " = " + stand(c.To, 10+c.TokenDelta, c.NewOwner, c.NewRun)
		if c.From == runs.Suspended && c.To == runs.Leaving { // An archived row keeps its holder.
			change = strings.ReplaceAll(change, "'00000000-0000-0000-0000-000000000001'", unheld)
		}
	}
	_, err := b.Pool.Exec(t.Context(), change)
	return err
}

// TestARunOfTheHistoryNeverChanges tries to move a run from each status to each, and to remove it.
// It goes with its day.
func TestARunOfTheHistoryNeverChanges(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	b.RunOne(t, storetest.Worker{1})
	refused := func(sql string, args ...any) {
		t.Helper()
		_, err := b.Pool.Exec(t.Context(), sql, args...)
		fault, is := errors.AsType[*pgconn.PgError](err)
		require.True(t, is, "the database allows %s", sql)
		require.Equal(t, illegal, fault.Code, "%s: %s", sql, fault.Message)
	}
	day := storetest.Query[string](t, b.Bundle, "SELECT tableoid::regclass::text FROM runs")
	for _, from := range runs.Statuses() {
		for _, to := range runs.Statuses() {
			require.Equal(t, from == runs.Running && to != runs.Running, from.CheckTransition(to) == nil, "%s to %s", from, to)
			if from == runs.Running || to == runs.Running {
				continue // A check refuses it in the history.
			}
			b.ExecUntriggered(t, "UPDATE runs SET status = '"+string(from)+"'")
			refused("UPDATE runs SET status = $1", string(to))
		}
	}
	for _, table := range []string{"runs", day} {
		refused("UPDATE " + table + " SET error = 'another'")
		refused("DELETE FROM " + table)
	}
	refused("TRUNCATE runs")
	b.Exec(t, "DROP TABLE "+day)
	require.Zero(t, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM runs"))
}

// TestARunIsRecordedAsOverAlone finishes a run with a status that no run may move to.
func TestARunIsRecordedAsOverAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	c, s := b.StartOne(t, storetest.Worker{1})
	run := storetest.Succeed(storetest.Worker{1}, c, s)
	for _, status := range []runs.Status{runs.Running, "", "won"} {
		run.Outcome.Status = status
		_, err := b.Executions.Finish(context.Background(), b.FinishOf(t, storetest.Worker{1}, 0, run))
		require.ErrorContains(t, err, fmt.Sprintf(`change status of a run from "running" to %q: not a legal transition`, status))
	}
	run.Outcome.Status = runs.Succeeded
	b.Finish(t, storetest.Worker{1}, 0, run)
}

// TestAnEndpointHasOneRow tries to insert a second row for an endpoint, to insert two rows of a key
// in one statement, and to give a row another key.
func TestAnEndpointHasOneRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Register(t, nil)
	b.Exec(t, "CREATE TABLE made AS SELECT * FROM schedules")
	const unique = "23505"
	for _, c := range []struct{ rows, sql, code string }{
		{"SELECT * FROM made", "INSERT INTO schedules SELECT * FROM made", unique},
		{"SELECT * FROM made LIMIT 0", "INSERT INTO schedules SELECT made.* FROM made, generate_series(1, 2)", unique},
		{"SELECT * FROM made", "UPDATE schedules SET endpoint_id = gen_random_uuid()", illegal},
	} {
		b.ExecUntriggered(t, "DELETE FROM schedules", "INSERT INTO schedules "+c.rows)
		_, err := b.Pool.Exec(t.Context(), c.sql)
		refused, is := errors.AsType[*pgconn.PgError](err)
		require.True(t, is, "the database allows %s", c.sql)
		require.Equal(t, c.code, refused.Code, c.sql)
	}
}
