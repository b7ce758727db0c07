package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
)

func (b *bundle) bulk() *endpoints.Bulk { return endpoints.NewBulk(b.endpoints, anyTarget{}) }

func (b *bundle) upsert(t *testing.T, mode endpoints.Mode, list ...endpoints.Upsert) []endpoints.Outcome {
	t.Helper()
	out, err := b.bulk().Upsert(t.Context(), tenant, list, mode)
	require.NoError(t, err)
	require.Len(t, out, len(list))
	return out
}

// wanted returns an upsert by key of a plain endpoint, changed by edit.
func wanted(key string, edit func(*endpoints.Spec)) endpoints.Upsert {
	return endpoints.Upsert{Key: key, Want: func(*endpoints.Endpoint) (endpoints.Spec, error) {
		s := endpoints.Defaults()
		s.Name, s.Key, s.URL, s.BaselineInterval = "bulk", key, "http://target.example/", time.Minute
		if edit != nil {
			edit(&s)
		}
		return s, nil
	}}
}
