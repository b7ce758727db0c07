package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/store"
)

// logged returns the entries of the bundle's tenant, the newest first.
func logged(t *testing.T, b *bundle, edit func(*auditlog.Filter)) []auditlog.Entry {
	t.Helper()
	f := auditlog.Filter{TenantID: tenant.TenantID, Limit: 100}
	if edit != nil {
		edit(&f)
	}
	list, err := store.NewAuditLog(b.db).List(t.Context(), f)
	require.NoError(t, err)
	return list
}
