package notices_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/notices"
	"rubato/internal/store/storetest"
)

// TestANoticeThatCannotBeReadHoldsUpNoOther corrupts the stored state of one of three notices, past
// the API. The others are claimed, read and listed, and the corrupt one is listed with its error.
func TestANoticeThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"detail":  `UPDATE notice_episodes SET detail = '{"failures": "many"}' WHERE rule = 'sick'`,
		"channel": `UPDATE notice_rules SET channel = '{"to": "nobody"}' WHERE name = 'sick'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.At(storetest.Noon())
			b.PutRule(t, "one", func(s *notices.Spec) { s.Failures = 1 })
			b.PutRule(t, "sick", func(s *notices.Spec) { s.Failures = 1 })
			keeper := b.PutRule(t, "two", func(s *notices.Spec) { s.Failures = 1 })
			b.failOne(t, b.Register(t, nil).ID)
			b.At(storetest.Noon().Add(time.Hour))
			require.EqualValues(t, 1, b.Exec(t, sql))

			claimed, err := keeper.Claim(t.Context(), room(10), time.Minute)

			require.NoError(t, err)
			require.Len(t, claimed, 3)
			for _, p := range claimed {
				if p.Rule == "sick" {
					require.ErrorContains(t, p.Fault, "reading the "+name+" of ")
				} else {
					require.NoError(t, p.Fault)
				}
			}
			list, err := keeper.ListNotices(t.Context(), notices.Filter{TenantID: storetest.Tenant.TenantID, Limit: 10})
			require.NoError(t, err)
			require.Len(t, list, 3)
			for _, n := range list {
				require.Equal(t, n.Rule == "sick" && name == "detail", strings.Contains(n.Error, "reading the detail of "), n.Error)
			}
		})
	}
}
