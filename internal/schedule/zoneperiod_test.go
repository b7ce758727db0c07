package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// oddZones are zones with unusual clock changes since 1970: half hours, skipped days, changes at
// midnight, twice or four times a year, in Ramadan, backwards in summer, by permanent rules north
// and south, or none.
func oddZones() []string {
	return []string{
		"Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Juba", "Africa/Monrovia", "Africa/Windhoek", "America/Asuncion",
		"America/Caracas", "America/Havana", "America/New_York", "America/Nuuk", "America/Phoenix", "America/Santiago", "America/Sao_Paulo",
		"America/Scoresbysund", "America/St_Johns", "Antarctica/Casey", "Antarctica/Troll", "Asia/Beirut", "Asia/Gaza", "Asia/Jerusalem",
		"Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran", "Atlantic/Azores", "Australia/Lord_Howe", "Australia/Sydney",
		"Europe/Berlin", "Europe/Dublin", "Europe/Istanbul", "Europe/London", "Europe/Moscow", "Pacific/Apia", "Pacific/Auckland",
		"Pacific/Chatham", "Pacific/Easter", "Pacific/Kwajalein", "Pacific/Norfolk", "UTC",
	}
}

// changeAfter returns the first instant after a, and by b, at which the offset differs from that at
// a; found by halving.
func changeAfter(zone *time.Location, a, b int64) int64 {
	offset := offsetOf(time.Unix(a, 0).In(zone))
	for b-a > 1 {
		if middle := a + (b-a)/2; offsetOf(time.Unix(middle, 0).In(zone)) == offset {
			a = middle
		} else {
			b = middle
		}
	}
	return b
}

func TestStretchesAreThoseOfTheZone(t *testing.T) {
	t.Parallel()
	const step = 12 * 60 * 60
	from, to := at(t, "1970-01-02").Unix(), at(t, "2110-01-01").Unix()
	for _, name := range oddZones() {
		zone, err := LoadZone(name)
		require.NoError(t, err)
		s := zonePeriodAt(zone, from)
		for instant := from; instant < to; instant += step {
			before, after := offsetOf(time.Unix(instant, 0).In(zone)), offsetOf(time.Unix(instant+step, 0).In(zone))
			if before == after {
				continue
			}
			change := changeAfter(zone, instant, instant+step)
			for s.end < change {
				require.Less(t, s.start, s.end, "%s: stretches go on", zone)
				require.Equal(t, before, s.offset, "%s at %d", zone, change)
				s = s.next(zone)
			}
			require.Equal(t, change, s.end, "%s", zone)
			require.Equal(t, before, s.offset, "%s at %d", zone, change)
			s = s.next(zone)
			for _, inside := range []int64{0, 1, 29 * 60} {
				got := zonePeriodAt(zone, change+inside)
				require.Equal(t, change, got.start, "%s at %d+%d", zone, change, inside)
				require.Equal(t, before, got.before, "%s at %d+%d", zone, change, inside)
				require.Equal(t, after, got.offset, "%s at %d+%d", zone, change, inside)
				require.Greater(t, got.end, change+inside, "%s at %d+%d", zone, change, inside)
			}
		}
	}
}

func TestTheLastDayOfALeapYearEnds(t *testing.T) {
	t.Parallel()
	zone, err := LoadZone("America/New_York")
	require.NoError(t, err)

	s := zonePeriodAt(zone, at(t, "2104-12-31T12:00:00Z").Unix())

	require.Equal(t, at(t, "2105-01-01").Unix(), s.end)
}
