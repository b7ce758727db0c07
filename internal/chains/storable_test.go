package chains_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/chains"
	"rubato/internal/errs"
)

// plan returns a plan of one step with an input and an output.
func plan(t *testing.T) *chains.Plan {
	t.Helper()
	p, err := chains.Parse(chains.Definition{
		Name:   "one",
		Inputs: map[string]chains.Input{"in": {Default: []byte("1e400")}},
		Steps:  []chains.StepSpec{{Name: "a", EndpointID: endpoint, Outputs: map[string]string{"out": "$"}}},
	})
	require.NoError(t, err)
	return p
}

func TestValuesAreStorable(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`"a\u0000b"`:                                         `"a\ufffdb"`,
		`["\ud800", "\udc00x", "\ud83d\ude00"]`:              `["\ufffd", "\ufffdx", "😀"]`,
		`{"\u0000": {"\u0000\ud800": 1}}`:                    `{"\ufffd": {"\ufffd\ufffd": 1}}`,
		`{"\u0000": 1, "\ufffd": 2}`:                         `{"\ufffd": 2}`,
		`[1e308, -1E-308, 1.50, 0e0, 1e+2]`:                  `[1e308, -1E-308, 1.50, 0e0, 1e+2]`,
		`[1e309, 1e-16384, 0e400, -1E+99999999999999999999]`: `["1e309", "1e-16384", "0e400", "-1E+99999999999999999999"]`,
		`[null, true, 12345678901234567890123]`:              `[null, true, 12345678901234567890123]`,
		strings.Repeat("9", 401):                             `"` + strings.Repeat("9", 401) + `"`,
	} {
		p := plan(t)
		output, why := p.Outputs(whole("a"), []byte(given))
		require.Empty(t, why)
		require.Equal(t, compact(t, `{"out":`+want+`}`), compact(t, string(output)), given)
		input, err := p.ReadInput([]byte(`{"in":` + given + `}`))
		require.NoError(t, err)
		require.Equal(t, compact(t, `{"in":`+want+`}`), compact(t, string(input)), given)
	}
	input, err := plan(t).ReadInput(nil)
	require.NoError(t, err)
	require.JSONEq(t, `{"in":"1e400"}`, string(input), "the default too")
	_, err = plan(t).ReadInput([]byte(`{"in":` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}`))
	require.Equal(t, errs.Invalid, errs.CodeOf(err))
	require.ErrorContains(t, err, "at most 100 nested levels")
}

// compact returns JSON with its numbers as they are written.
func compact(t *testing.T, text string) string {
	t.Helper()
	value, err := chains.DecodeValue([]byte(text))
	require.NoError(t, err)
	raw, err := json.Marshal(value)
	require.NoError(t, err)
	return string(raw)
}

// each returns a chain with steps over the list of an input.
func each(steps int) chains.Definition {
	d := chains.Definition{Name: "wide", Inputs: map[string]chains.Input{"list": {}}, OnFailure: chains.Continue}
	for i := range steps {
		d.Steps = append(d.Steps, chains.StepSpec{
			Name: fmt.Sprintf("s%d", i), EndpointID: endpoint, ForEach: "input.list", Outputs: map[string]string{"id": "$.id"},
		})
	}
	return d
}

// TestTheElementsOfARunAreBounded has a step too many for its list. The step fails and names the
// limit, and a start with such an input is refused.
func TestTheElementsOfARunAreBounded(t *testing.T) {
	t.Parallel()
	d := each(6)
	w := newWorld(t, d)
	w.run.Input["list"] = make([]any, 1000)
	failed := 0
	for _, m := range chains.Advance(w.run, time.Time{}).List {
		if m.Kind == chains.End {
			failed++
			require.Equal(t, chains.ReasonTooManyElements, m.Reason)
			require.Equal(t, "the steps with forEach have 6000 elements together; a run has at most 5000", m.Error)
		}
	}
	require.Equal(t, 1, failed)

	input := []byte(`{"list":[1` + strings.Repeat(",1", 999) + `]}`)
	refused, err := chains.Parse(d)
	require.NoError(t, err)
	_, err = refused.ReadInput(input)
	require.ErrorContains(t, err, "a run has at most 5000")
	d.Steps[5].When = "size(input.list) < 9"
	maySkip, err := chains.Parse(d)
	require.NoError(t, err)
	_, err = maySkip.ReadInput(input)
	require.NoError(t, err)
	enough, err := chains.Parse(each(5))
	require.NoError(t, err)
	_, err = enough.ReadInput(input)
	require.NoError(t, err)
}

// TestTheOutputsOfARunAreBounded has outputs that repeat those of a step with many elements.
func TestTheOutputsOfARunAreBounded(t *testing.T) {
	t.Parallel()
	for onFailure, want := range map[chains.OnFailure]chains.Status{chains.Stop: chains.Failed, chains.Compensate: chains.Compensated} {
		d := each(1)
		d.OnFailure, d.Outputs = onFailure, map[string]string{"one": "steps.s0.output.id", "two": "steps.s0.output.id"}
		w := newWorld(t, d)
		w.run.Input["list"] = make([]any, 150)
		w.advance(t, time.Time{})
		for len(w.active()) > 0 {
			w.finish(w.active()[0], chains.StepSucceeded, map[string]any{"id": strings.Repeat("x", 4000)})
			w.advance(t, time.Time{})
		}
		require.Equal(t, want, w.run.Status)
		require.Equal(t, chains.ReasonOutputsTooLong, w.run.Reason)
		require.Nil(t, w.output)
	}
}
