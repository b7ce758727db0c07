package notices_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/notices"
)

var mine = [16]byte{1}

// of returns a rule of a tenant.
func of(tenant [16]byte, edit func(*notices.Spec)) notices.Rule {
	return notices.Rule{TenantID: tenant, Spec: good(edit)}
}

// TestEpisodesAreLookedUpOnlyWhenAThresholdIsCrossed: only the run that crosses a rule's threshold
// looks up episodes, so later failures cost nothing.
func TestEpisodesAreLookedUpOnlyWhenAThresholdIsCrossed(t *testing.T) {
	t.Parallel()
	e := &endpoints.Endpoint{ID: endpoints.ID{7}, TenantID: mine}
	e.Spec.Labels = map[string]string{"team": "shop"}
	after3 := of(mine, nil)
	for name, c := range map[string]struct {
		rules        []notices.Rule
		event        notices.Event
		before, size int64
		opens        bool
	}{
		"Before":          {[]notices.Rule{after3}, notices.Failures, 1, 2, false},
		"At":              {[]notices.Rule{after3}, notices.Failures, 2, 3, true},
		"After":           {[]notices.Rule{after3}, notices.Failures, 3, 4, false},
		"Across":          {[]notices.Rule{after3}, notices.Failures, 0, 9, true},
		"Another's":       {[]notices.Rule{of([16]byte{2}, nil)}, notices.Failures, 2, 3, false},
		"OfAnotherEvent":  {[]notices.Rule{after3}, notices.Late, 2, 3, false},
		"Off":             {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Enabled = false })}, notices.Failures, 2, 3, false},
		"OtherEndpoint":   {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Scope.EndpointID = endpoints.ID{8} })}, notices.Failures, 2, 3, false},
		"ThisEndpoint":    {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Scope.EndpointID = endpoints.ID{7} })}, notices.Failures, 2, 3, true},
		"OtherLabels":     {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Scope.Labels = map[string]string{"team": "bank"} })}, notices.Failures, 2, 3, false},
		"OneOfTwo":        {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Failures = 9 }), after3}, notices.Failures, 2, 3, true},
		"LateByLess":      {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Event, s.Late = notices.Late, 10*time.Second })}, notices.Late, 0, 9_999, false},
		"LateBySoMuch":    {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Event, s.Late = notices.Late, 10*time.Second })}, notices.Late, 0, 10_000, true},
		"LostIsAlwaysOne": {[]notices.Rule{of(mine, func(s *notices.Spec) { s.Event, s.Failures = notices.Lost, 0 })}, notices.Lost, 0, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.opens, notices.NewRuleCache(c.rules).Opens(e, c.event, c.before, c.size))
		})
	}
}

func TestRuleCacheHoldsOpenEpisodes(t *testing.T) {
	t.Parallel()
	b := notices.NewRuleCache([]notices.Rule{of(mine, nil)})
	b.AddOpen([16]byte{7}, notices.Late)
	require.True(t, b.Open([16]byte{7}, notices.Late))
	require.False(t, b.Open([16]byte{7}, notices.Lost))
	require.False(t, b.Open([16]byte{8}, notices.Late))
	require.True(t, b.About(mine))
	require.False(t, b.About([16]byte{2}))
	require.False(t, b.Empty())
}

// TestNilRuleCacheIsEmpty: a nil cache is valid and empty, because a program has none before its
// first read.
func TestNilRuleCacheIsEmpty(t *testing.T) {
	t.Parallel()
	off := of(mine, func(s *notices.Spec) { s.Enabled = false })
	for name, b := range map[string]*notices.RuleCache{"Nil": nil, "NoRules": notices.NewRuleCache(nil), "RulesThatAreOff": notices.NewRuleCache([]notices.Rule{off})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.True(t, b.Empty())
			require.False(t, b.About(mine))
			require.False(t, b.Open([16]byte{7}, notices.Late))
			require.False(t, b.Opens(&endpoints.Endpoint{TenantID: mine}, notices.Failures, 2, 3))
		})
	}
}
