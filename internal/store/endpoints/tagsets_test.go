package endpoints_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/placement"
	"rubato/internal/store/storetest"
)

// TestTagSetsOfATenantAreBounded fills the tag sets of a tenant. A further one is refused in every
// way to store it, and accepted after a set has lost its last endpoint.
func TestTagSetsOfATenantAreBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	full := make([]endpoints.Upsert, placement.MaxSets)
	for i := range full {
		full[i] = storetest.Wanted(fmt.Sprintf("set-%d", i), func(s *endpoints.Spec) { s.RequiredTags = []string{fmt.Sprintf("set=%d", i)} })
	}
	stored := b.Upsert(t, endpoints.Mode{}, full...)
	twin := b.Register(t, func(s *endpoints.Spec) { s.RequiredTags = []string{"set=0"} })
	plain := b.Register(t, nil)
	other := storetest.Wanted("other", func(s *endpoints.Spec) { s.RequiredTags, s.PreferredTags = []string{"set=0"}, []string{"set=1"} })
	spec, err := other.Want(nil)
	require.NoError(t, err)
	tag := func(s endpoints.Spec) (endpoints.Spec, error) {
		s.PreferredTags = []string{"set=other"}
		return s, nil
	}

	_, _, err = b.Service.Register(t.Context(), storetest.Tenant, spec)
	refused(t, err)
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, plain.ID, 1, tag)
	refused(t, err)
	out := b.Upsert(t, endpoints.Mode{}, other)
	refused(t, out[0].Err)
	require.Empty(t, b.Get(t, plain.ID).Spec.PreferredTags, "a refused change was stored")

	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, twin.ID, 0))
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, plain.ID, 1, tag)
	refused(t, err)
	require.NoError(t, b.Service.Archive(t.Context(), storetest.Tenant, stored[0].Endpoint.ID, 0))
	_, _, err = b.Service.Edit(t.Context(), storetest.Tenant, plain.ID, 1, tag)
	require.NoError(t, err)
	stranger := b.OtherTenant(t)
	_, _, err = b.Service.Register(t.Context(), stranger, spec)
	require.NoError(t, err, "another tenant has tag sets of its own")
}

// refused requires the error of a tag set too many.
func refused(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, errs.Invalid, errs.CodeOf(err), "%v", err)
	require.Equal(t, "too_many_tag_sets", errs.FieldsOf(err)[0].Code)
}
