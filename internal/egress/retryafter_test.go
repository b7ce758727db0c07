package egress

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 8, 1, 30, 0, 500, time.UTC)
	tests := map[string]struct {
		values []string
		want   time.Duration // from now; negative means that nothing is asked
	}{
		"None":             {nil, -1},
		"Empty":            {[]string{""}, -1},
		"Zero":             {[]string{"0"}, 0},
		"Seconds":          {[]string{"120"}, 120 * time.Second},
		"LeadingZeros":     {[]string{"0000000000000000000000060"}, 60 * time.Second},
		"Spaces":           {[]string{" 7 "}, 7 * time.Second},
		"Negative":         {[]string{"-5"}, -1},
		"Signed":           {[]string{"+5"}, -1},
		"Fraction":         {[]string{"1.5"}, -1},
		"Exponent":         {[]string{"1e3"}, -1},
		"Hexadecimal":      {[]string{"0x10"}, -1},
		"Unit":             {[]string{"10s"}, -1},
		"List":             {[]string{"10, 20"}, -1},
		"OtherDigits":      {[]string{"１２"}, -1},
		"Words":            {[]string{"soon"}, -1},
		"JustBelowCap":     {[]string{"31622399"}, maxRetryAfter - time.Second},
		"Cap":              {[]string{"31622400"}, maxRetryAfter},
		"AboveCap":         {[]string{"31622401"}, maxRetryAfter},
		"Huge":             {[]string{"1000000000000000000"}, maxRetryAfter},
		"BeyondAnyInteger": {[]string{"100000000000000000000000"}, maxRetryAfter},
		"Date":             {[]string{"Sun, 08 Mar 2026 01:31:00 GMT"}, 60*time.Second - 500},
		"OldDateFormat":    {[]string{"Sunday, 08-Mar-26 01:31:00 GMT"}, 60*time.Second - 500},
		"DateOfC":          {[]string{"Sun Mar  8 01:31:00 2026"}, 60*time.Second - 500},
		"PastDate":         {[]string{"Thu, 01 Jan 1970 00:00:00 GMT"}, 0},
		"FarDate":          {[]string{"Fri, 31 Dec 9999 23:59:59 GMT"}, maxRetryAfter},
		"ImpossibleDate":   {[]string{"Sun, 31 Feb 2026 01:31:00 GMT"}, -1},
		"FirstOfTwo":       {[]string{"10", "20"}, 10 * time.Second},
		"FirstThatIsValid": {[]string{"soon", "-1", "20", "30"}, 20 * time.Second},
		"NoneOfTwoIsValid": {[]string{"soon", "-1"}, -1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, ok := RetryAfter(http.Header{"Retry-After": test.values}, now)
			require.Equal(t, test.want >= 0, ok)
			if ok {
				require.Equal(t, now.Add(test.want), at)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120", int64(1_770_000_000))
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", int64(0))
	f.Add("-1", int64(253_402_300_799))
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		now := time.Unix(unix%253_402_300_800, 0)
		at, ok := RetryAfter(http.Header{"Retry-After": {value}}, now)
		if !ok {
			require.True(t, at.IsZero())
			return
		}
		require.False(t, at.Before(now))
		require.LessOrEqual(t, at.Sub(now), maxRetryAfter)
	})
}
