package request

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/change"
	"rubato/internal/egress"
	"rubato/internal/endpoints"
	"rubato/internal/runs"
)

// noisy is an endpoint with a target that answers with noise, as its worker sees it.
type noisy struct {
	spec            endpoints.Spec
	found, rejected []string
	watch           []byte
	digests         []uint64
	again           int
	n               int
}

// answer classifies the next answer, a minute or a close look after the last.
func (e *noisy) answer(t *testing.T, status int, body string) runs.Outcome {
	t.Helper()
	target, err := NewTarget([16]byte{1}, &e.spec)
	require.NoError(t, err)
	watch, err := change.Decode(e.watch)
	require.NoError(t, err)
	noise := target.WithNoise(Noise{
		Watch:    watch,
		Found:    e.found,
		Rejected: e.rejected,
	})
	noise.Validators = &runs.Validators{ETag: "a"}
	e.n++
	x := Exchange{
		Answer: egress.Response{StatusCode: status, Body: []byte(body)},
		At:     start.Add(time.Duration(e.n) * time.Minute),
	}
	o, _ := runSecrets{}.classify(t.Context(), noise, x)
	if o.NoiseWatch != nil {
		e.watch = o.NoiseWatch
	}
	if o.LookAgain {
		e.again++
	}
	for _, found := range o.Noise {
		e.found = append(e.found, found.Path)
	}
	e.digests = append(e.digests, o.BodyDigest)
	return o
}

func setupNoisy(edit func(*endpoints.Spec)) *noisy {
	e := &noisy{spec: endpoints.Defaults()}
	e.spec.Name, e.spec.URL, e.spec.Planner = "n", "https://target.example/", endpoints.PlannerAct
	if edit != nil {
		edit(&e.spec)
	}
	return e
}

// body has a timestamp and content.
func body(n, content int) string { return fmt.Sprintf(`{"pin":{"now":%d},"v":%d}`, n, content) }

// TestNoiseIsFoundAndLeftOut follows a target to its thirteenth answer.
func TestNoiseIsFoundAndLeftOut(t *testing.T) {
	t.Parallel()
	e := setupNoisy(nil)
	for n := range 12 {
		e.answer(t, 200, body(n, 1))
	}
	require.Equal(t, []string{"$.pin.now"}, e.found)
	require.Equal(t, 3, e.again)
	for n := 12; n < 20; n++ {
		e.answer(t, 200, body(n, 1))
	}
	for _, digest := range e.digests[12:] {
		require.Equal(t, e.digests[12], digest, "noise is no change")
	}
	e.answer(t, 200, body(20, 2))
	require.NotEqual(t, e.digests[12], e.digests[20], "content is")
	require.True(t, runs.Comparable(e.digests[12], e.digests[20]))
	require.False(t, runs.Comparable(e.digests[11], e.digests[12]), "leaving out a member is no change")
	require.Len(t, e.found, 1)

	e.found, e.rejected = nil, []string{"$.pin.now"}
	for n := 21; n < 45; n++ {
		e.answer(t, 200, body(n, 2))
		require.NotEqual(t, e.digests[n-1], e.digests[n], "a rejected member counts")
	}
	require.False(t, runs.Comparable(e.digests[20], e.digests[21]))
	require.True(t, runs.Comparable(e.digests[21], e.digests[44]))
	require.Empty(t, e.found, "and is not found another time")
}

// TestCloseLooksNeedAuthority counts the close looks of endpoints that forbid them, which ordinary
// answers replace.
func TestCloseLooksNeedAuthority(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*endpoints.Spec){
		"Observe": func(s *endpoints.Spec) { s.Planner = endpoints.PlannerObserve },
		"Suggest": func(s *endpoints.Spec) { s.Planner = endpoints.PlannerSuggest },
		"Post":    func(s *endpoints.Spec) { s.Method = "POST" },
	} {
		e := setupNoisy(edit)
		for n := range 12 {
			e.answer(t, 200, body(n, 1))
		}
		require.Zero(t, e.again, name)
		require.Equal(t, []string{"$.pin.now"}, e.found, name)
	}
	for name, edit := range map[string]func(*endpoints.Spec){
		"Off":    func(s *endpoints.Spec) { s.Planner = endpoints.PlannerOff },
		"Key":    func(s *endpoints.Spec) { s.ChangeKey = []string{"$.v"} },
		"NoBody": func(s *endpoints.Spec) { s.MaxResponseKB = 0 },
	} {
		target, err := NewTarget([16]byte{1}, &setupNoisy(edit).spec)
		require.NoError(t, err)
		require.False(t, target.Spec.SearchesNoise(), name)
	}
}

// TestTheSearchForNoiseBeginsAnew has answers that end a series of changes, and some that do not.
func TestTheSearchForNoiseBeginsAnew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		found  bool
	}{
		"NotModified": {304, "", false},
		"Text":        {200, "maintenance", false},
		"Failed":      {500, body(99, 99), true},
	} {
		e := setupNoisy(nil)
		for n := range 8 {
			e.answer(t, 200, body(n, 1))
		}
		e.answer(t, tc.status, tc.body)
		for n := 8; n < 12; n++ {
			e.answer(t, 200, body(n, 1))
		}
		require.Equal(t, tc.found, len(e.found) > 0, name)
	}
}

// TestPathsOfNoiseAreBoundedAndRedacted has names that redaction hides, a rejected finding, and an
// endpoint with as much noise as it may have.
func TestPathsOfNoiseAreBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]func(*noisy){
		"Redacted": func(e *noisy) { e.spec.Redact = []endpoints.RedactRule{{Pattern: "pin"}} },
		"Rejected": func(e *noisy) { e.rejected = []string{"$.pin.now"} },
		"Full":     func(e *noisy) { e.rejected = make([]string, change.MaxPaths) },
	} {
		e := setupNoisy(nil)
		tc(e)
		for n := range 12 {
			e.answer(t, 200, body(n, 1))
		}
		require.Empty(t, e.found, name)
	}
}
