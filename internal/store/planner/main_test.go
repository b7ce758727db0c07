package planner_test

import (
	"testing"

	"go.uber.org/goleak"

	"rubato/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle is a database with every store, and the helpers of this package's tests.
type bundle struct{ *storetest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{storetest.Setup(t)}
}
