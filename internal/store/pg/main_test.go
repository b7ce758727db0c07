package pg_test

import (
	"testing"

	"go.uber.org/goleak"

	"rubato/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bundle adds what the tests of this package do to a database with every store over it.
type bundle struct{ *storetest.Bundle }

func setup(t *testing.T) *bundle {
	t.Helper()
	return &bundle{storetest.Setup(t)}
}
