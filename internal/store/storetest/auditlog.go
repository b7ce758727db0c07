package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/auditlog"
	"rubato/internal/store/views"
)

// Logged returns the entries of the bundle's tenant, the newest first.
func Logged(t *testing.T, b *Bundle, edit func(*auditlog.Filter)) []auditlog.Entry {
	t.Helper()
	f := auditlog.Filter{TenantID: Tenant.TenantID, Limit: 100}
	if edit != nil {
		edit(&f)
	}
	list, err := views.NewAuditLog(b.DB).List(t.Context(), f)
	require.NoError(t, err)
	return list
}
