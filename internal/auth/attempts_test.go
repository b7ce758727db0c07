package auth_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/auth"
)

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// fail tries wrong keys from an address at one instant as long as it is allowed, and returns how
// many it tried.
func fail(a *auth.Attempts, address string, now time.Time, most int) int {
	for n := range most {
		if a.Allow(address, now) > 0 {
			return n
		}
		a.Failed(address, now)
	}
	return most
}

func TestWrongKeysInARowAreThrottledPerAddress(t *testing.T) {
	t.Parallel()
	a := auth.NewAttempts()
	require.Equal(t, 10, fail(a, "192.0.2.1", noon, 31))
	require.Equal(t, 6*time.Second, a.Allow("192.0.2.1", noon))
	require.Equal(t, 2*time.Second, a.Allow("192.0.2.1", noon.Add(4*time.Second)))
	require.Zero(t, a.Allow("192.0.2.2", noon), "another address does not wait")

	require.Equal(t, 1, fail(a, "192.0.2.1", noon.Add(6*time.Second), 31), "one more after the wait")
	require.Equal(t, 10, fail(a, "192.0.2.1", noon.Add(time.Hour), 31), "all of them after a rest")
}

func TestAddressesOfOneClientAreOne(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		first, second string
		same          bool
	}{
		"SameNetworkOfIPv6":  {"2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true},
		"OtherNetworkOfIPv6": {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
		"IPv4InIPv6":         {"192.0.2.1", "::ffff:192.0.2.1", true},
		"Zone":               {"fe80::1%eth0", "fe80::1%eth1", true},
		"NoAddress":          {"", "@", true},
		"NeighborsOfIPv4":    {"192.0.2.1", "192.0.2.3", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := auth.NewAttempts()
			fail(a, tc.first, noon, 31)
			require.Equal(t, tc.same, a.Allow(tc.second, noon) > 0)
		})
	}
}

func TestWrongKeysFromManyAddressesAreThrottledTogether(t *testing.T) {
	t.Parallel()
	a := auth.NewAttempts()
	tried := 0
	for i := range 1000 {
		tried += fail(a, fmt.Sprintf("192.0.%d.%d", i/250, i%250), noon, 1)
	}
	require.Equal(t, 200, tried)
	require.Equal(t, 50*time.Millisecond, a.Allow("198.51.100.1", noon), "the wait is short, also for those who have a right key")
	require.Zero(t, a.Allow("198.51.100.1", noon.Add(50*time.Millisecond)))
}

// Attempts under way at once pass Allow together. They count all the same, and no address is shut
// out for longer than five minutes.
func TestAttemptsAtOnceAreOwedAfterwards(t *testing.T) {
	t.Parallel()
	a := auth.NewAttempts()
	var all sync.WaitGroup
	for range 5000 {
		all.Go(func() { a.Failed("192.0.2.1", noon) })
	}
	all.Wait()
	require.Greater(t, a.Allow("192.0.2.1", noon), 4*time.Minute)
	require.LessOrEqual(t, a.Allow("192.0.2.1", noon), 5*time.Minute)
	require.LessOrEqual(t, a.Allow("192.0.2.2", noon), 3*time.Second, "other addresses wait for seconds at most")
}

func TestTheMemoryOfAttemptsIsBounded(t *testing.T) {
	t.Parallel()
	a := auth.NewAttempts()
	for i := range 100_000 {
		a.Failed(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff), noon)
	}
	require.LessOrEqual(t, a.Addresses(), 8192)
	require.Positive(t, a.Allow("198.51.100.1", noon), "those who were forgotten are bounded by what holds for all")
}
