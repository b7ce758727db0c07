package notices_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

// window is an hour of maintenance.
func window(reason string) notices.WindowSpec {
	return notices.WindowSpec{StartsAt: storetest.Noon(), EndsAt: storetest.Noon().Add(time.Hour), Reason: reason}
}

// atOnce runs sixteen of something together, and returns how many came back without an error and
// with which codes the others did.
func atOnce(act func(i int) error) (done int, refused map[errs.Code]int) {
	const together = 16
	var (
		all     sync.WaitGroup
		results [together]error
	)
	for i := range together {
		all.Go(func() { results[i] = act(i) })
	}
	all.Wait()
	refused = map[errs.Code]int{}
	for _, err := range results {
		if err == nil {
			done++
		} else {
			refused[errs.CodeOf(err)]++
		}
	}
	return done, refused
}

// TestConcurrentWindowChangesAreSerialized makes, replaces and deletes one window concurrently. The
// audit entry of each change names the state that it found.
func TestConcurrentWindowChangesAreSerialized(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper := b.PutRule(t, "failing", nil)
	logged := func(action string) int {
		return storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM audit_log WHERE object_kind = 'maintenance_window' AND action = $1", action)
	}

	done, refused := atOnce(func(i int) error {
		_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", window(fmt.Sprint("made by ", i)), endpoints.Condition{Absent: true})
		return err
	})
	require.Equal(t, 1, done, "of those who make one, one does")
	require.Equal(t, map[errs.Code]int{errs.Precondition: 15}, refused)
	require.Equal(t, 1, logged("create"))

	done, _ = atOnce(func(i int) error {
		_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, "upgrade", window(fmt.Sprint("edited by ", i)), endpoints.Condition{})
		return err
	})
	require.Equal(t, 16, done)
	require.Equal(t, 16, storetest.Query[int](t, b.Bundle, `SELECT count(DISTINCT coalesce(before ->> 'reason', '')) FROM audit_log
		WHERE object_kind = 'maintenance_window' AND action = 'edit'`), "no two replace the same")

	done, refused = atOnce(func(int) error { return keeper.DeleteWindow(t.Context(), storetest.Tenant, "upgrade") })
	require.Equal(t, 1, done)
	require.Equal(t, map[errs.Code]int{errs.NotFound: 15}, refused)
	require.Equal(t, 1, logged("delete"))
}

// TestManyAtOnceMakeNoMoreWindowsThanThereCanBe leaves room for one.
func TestManyAtOnceMakeNoMoreWindowsThanThereCanBe(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Exec(t, `INSERT INTO maintenance_windows (tenant_id, name, labels, starts_at, ends_at, reason, created_at, created_by)
		SELECT $1, 'old-' || n, '{}', '2026-01-01', '2026-01-02', '', now(), 'somebody' FROM generate_series(2, $2) n`,
		storetest.Tenant.TenantID, notices.MaxWindows)
	keeper := b.PutRule(t, "failing", nil)
	done, refused := atOnce(func(i int) error {
		_, _, err := keeper.PutWindow(t.Context(), storetest.Tenant, fmt.Sprint("new-", i), window(""), endpoints.Condition{})
		return err
	})
	require.Equal(t, 1, done)
	require.Equal(t, map[errs.Code]int{errs.Conflict: 15}, refused)
	require.Equal(t, notices.MaxWindows, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM maintenance_windows"))
}
