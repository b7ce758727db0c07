package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

// Bulk returns the operations on many endpoints.
func (b *Bundle) Bulk() *endpoints.Bulk { return endpoints.NewBulk(b.Endpoints, AnyTarget{}) }

// Upsert registers or changes many endpoints, and requires success.
func (b *Bundle) Upsert(t *testing.T, mode endpoints.Mode, list ...endpoints.Upsert) []endpoints.Outcome {
	t.Helper()
	out, err := b.Bulk().Upsert(t.Context(), Tenant, list, mode)
	require.NoError(t, err)
	require.Len(t, out, len(list))
	return out
}

// Wanted returns an upsert by key of a plain endpoint, changed by edit.
func Wanted(key string, edit func(*endpoints.Spec)) endpoints.Upsert {
	return endpoints.Upsert{Key: key, Want: func(*endpoints.Endpoint) (endpoints.Spec, error) {
		s := endpoints.Defaults()
		s.Name, s.Key, s.URL, s.BaselineInterval = "bulk", key, "http://target.example/", time.Minute
		if edit != nil {
			edit(&s)
		}
		return s, nil
	}}
}
