package change_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/budget"
	"rubato/internal/change"
	"rubato/internal/runs"
)

var start = time.Date(2026, time.March, 10, 12, 0, 0, 0, time.UTC)

// source is a target: its body at an instant for the n-th request.
type source func(at time.Time, n int) string

// watched follows a target, close looks included, until a number of requests. It returns the noise,
// and the number of the request that found it; 0: none did.
func watched(t require.TestingT, body source, every time.Duration, requests int, echo bool) (noise []string, found int) {
	var w change.Watch
	at := start
	for n := 1; n <= requests; n++ {
		var f change.Form
		f = f.Ignoring(noise)
		digest, members := f.Digest([]byte(body(at, n)), budget.New(nil))
		r := w.After(change.Look{
			At:      at,
			Digest:  digest,
			Members: members,
		})
		require.LessOrEqual(t, len(r.Watch.Encode()), change.MaxEncoded)
		again, err := change.Decode(r.Watch.Encode())
		require.NoError(t, err)
		require.Equal(t, r.Watch.Encode(), again.Encode())
		w = again
		if len(r.Noise) > 0 {
			for _, member := range r.Noise {
				require.GreaterOrEqual(t, member.Pairs, 3)
				noise = append(noise, member.Path)
			}
			found = n
		}
		if r.Again && echo {
			at = at.Add(change.EchoGap)
		} else {
			at = at.Add(every)
		}
	}
	return noise, found
}

// poisson returns a function that counts the changes of a process up to an instant.
func poisson(rate float64, seed uint64) func(time.Time) int {
	r := rand.New(rand.NewPCG(seed, 1))
	var times []time.Time
	next := start
	return func(at time.Time) int {
		for !next.After(at) {
			times = append(times, next)
			next = next.Add(time.Duration(r.ExpFloat64() / rate * float64(time.Second)))
		}
		n := 0
		for _, c := range times {
			if !c.After(at) {
				n++
			}
		}
		return n
	}
}

// TestNoiseIsFoundByEcho has the usual kinds of noise beside content that changes at several rates.
func TestNoiseIsFoundByEcho(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{1.0 / 3600, 1.0 / 300, 1.0 / 60} {
		content := poisson(rate, 7)
		body := func(at time.Time, n int) string {
			return fmt.Sprintf(`{"now":%q,"meta":{"request id":"%x"},"count":%d,"rows":[{"v":%d,"nonce":%d},{"v":1,"nonce":%d}],"name":"x"}`,
				at.Format(time.RFC3339), rand.Uint64(), n, content(at), rand.Int64(), rand.Int64())
		}
		for _, every := range []time.Duration{2 * time.Second, time.Minute, time.Hour} {
			noise, found := watched(t, body, every, 40, true)
			require.Equal(t, []string{"$.count", `$.meta["request id"]`, "$.now", "$.rows[*].nonce"}, noise, "%v %v", rate, every)
			require.LessOrEqual(t, found, 12, "eight pairs and three close ones")
		}
	}
}

// TestContentIsNotTakenForNoise has members that change about once a second or slower, each beside
// others of the same kind.
func TestContentIsNotTakenForNoise(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{0.1, 0.3, 1} {
		for seed := range uint64(20) {
			a, b, c := poisson(rate, seed), poisson(rate, seed+100), poisson(rate, seed+200)
			body := func(at time.Time, _ int) string {
				return fmt.Sprintf(`{"a":%d,"b":%d,"c":%d,"name":"x"}`, a(at), b(at), c(at))
			}
			noise, _ := watched(t, body, time.Minute, 15, true)
			require.Empty(t, noise, "rate %v", rate)
		}
	}
}

// TestNothingIsFoundWithoutEvidence has answers in which noise cannot be distinguished from
// content.
func TestNothingIsFoundWithoutEvidence(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]source{
		"Constant":        func(time.Time, int) string { return `{"a":1}` },
		"OneMember":       func(_ time.Time, n int) string { return fmt.Sprintf(`{"now":%d}`, n) },
		"Text":            func(_ time.Time, n int) string { return fmt.Sprintf(`%d`, n) },
		"SlowContent":     func(at time.Time, _ int) string { return fmt.Sprintf(`{"a":%d,"b":1}`, at.Unix()/30) },
		"NewNames":        func(_ time.Time, n int) string { return fmt.Sprintf(`{"a%d":1,"b":1}`, n) },
		"EverySecondTime": func(_ time.Time, n int) string { return fmt.Sprintf(`{"a":%d,"b":1}`, n/2) },
	} {
		noise, _ := watched(t, body, time.Minute, 40, true)
		require.Empty(t, noise, name)
	}
}

// TestOrdinaryPairsServeWithoutEcho looks at the usual interval only.
func TestOrdinaryPairsServeWithoutEcho(t *testing.T) {
	t.Parallel()
	body := func(_ time.Time, n int) string { return fmt.Sprintf(`{"now":%d,"v":1}`, n) }
	noise, found := watched(t, body, time.Minute, 40, false)
	require.Equal(t, []string{"$.now"}, noise)
	require.Equal(t, 12, found)
	body = func(_ time.Time, n int) string { return fmt.Sprintf(`{"now":%d,"v":%d}`, n, n/2) }
	noise, _ = watched(t, body, time.Minute, 40, false)
	require.Empty(t, noise, "the other member changes in half of the pairs")
}

// TestASearchWithoutResultRests counts the close looks of a target that always changes.
func TestASearchWithoutResultRests(t *testing.T) {
	t.Parallel()
	var w change.Watch
	looks, writes := 0, 0
	for n := range 3600 / 10 {
		digest, members := change.Form{}.Digest(fmt.Appendf(nil, `{"now":%d}`, n), nil)
		r := w.After(change.Look{
			At:      start.Add(time.Duration(n) * 10 * time.Second),
			Digest:  digest,
			Members: members,
		})
		w = r.Watch
		if r.Again {
			looks++
		}
		if r.Changed {
			writes++
		}
	}
	require.Equal(t, 3, looks, "three in an hour")
	require.Equal(t, 12, writes)
}

// TestAConstantAnswerIsWrittenOnce has no further state to store, and an unchanged answer ends a
// series of changes.
func TestAConstantAnswerIsWrittenOnce(t *testing.T) {
	t.Parallel()
	look := func(n int, body string) change.Look {
		digest, members := change.Form{}.Digest([]byte(body), nil)
		return change.Look{
			At:      start.Add(time.Duration(n) * time.Minute),
			Digest:  digest,
			Members: members,
		}
	}
	r := change.Watch{}.After(look(0, `{"a":1}`))
	require.True(t, r.Changed)
	for n := range 5 {
		r = r.Watch.After(look(n, `{"a":1}`))
		require.False(t, r.Changed)
		require.False(t, r.Watch.Unchanged().Changed)
	}
	r = r.Watch.After(look(6, `{"a":2}`))
	require.True(t, r.Changed)
	require.True(t, r.Watch.Unchanged().Changed, "a 304 ends the series")
	require.True(t, r.Watch.After(look(7, `{"a":2}`)).Changed)
	require.False(t, r.Watch.Unchanged().Watch.Unchanged().Changed)
}

// TestAnyStateIsReadOrRefused decodes states that no Watch wrote. Each is refused, or the Watch
// goes on from it.
func TestAnyStateIsReadOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "state")
		if len(text) > 0 && rapid.Bool().Draw(t, "version") {
			text[0] = 1
		}
		w, err := change.Decode(text)
		if err != nil {
			return
		}
		noise, _ := watched(t, func(_ time.Time, n int) string { return fmt.Sprintf(`{"a":%d}`, n) }, time.Second, 2, true)
		require.Empty(t, noise)
		for n := range 15 {
			digest, members := change.Form{}.Digest(fmt.Appendf(nil, `{"a":%d,"b":1}`, n), nil)
			w = w.After(change.Look{
				At:      start.Add(time.Duration(n) * time.Minute),
				Digest:  digest,
				Members: members,
			}).Watch
		}
	})
}

// TestARejectedMemberIsNeitherNoiseNorEvidence has a person reject one of two noisy members.
func TestARejectedMemberIsNeitherNoiseNorEvidence(t *testing.T) {
	t.Parallel()
	var w change.Watch
	var r change.Result
	for n := range 12 {
		digest, members := change.Form{}.Digest(fmt.Appendf(nil, `{"a":%d,"b":%d,"c":1}`, n, n), nil)
		r = w.After(change.Look{
			At:       start.Add(time.Duration(n) * time.Minute),
			Digest:   digest,
			Members:  members,
			Rejected: []string{"$.a"},
		})
		w = r.Watch
	}
	require.Equal(t, []runs.Noise{{Path: "$.b", Pairs: 10, Gap: time.Minute}}, r.Noise, "of the first pair the members are not known")
}

// TestAnotherFormEndsASearch has the ignored members change within a series of changes: the search
// begins again, because the digests before and after compare other members.
func TestAnotherFormEndsASearch(t *testing.T) {
	t.Parallel()
	var w change.Watch
	plain, ignoring := change.Form{}, form(t, nil, []string{"$.a"})
	look := func(f change.Form, n int) change.Result {
		digest, members := f.Digest(fmt.Appendf(nil, `{"a":%d,"b":%d,"c":1}`, n, n), nil)
		r := w.After(change.Look{At: start.Add(time.Duration(n) * time.Minute), Digest: digest, Members: members})
		w = r.Watch
		return r
	}
	for n := range 11 {
		require.Empty(t, look(plain, n).Noise)
	}
	require.False(t, look(ignoring, 11).Again, "the twelfth answer would have been the last of the search")
	require.Empty(t, look(ignoring, 12).Noise)
}
