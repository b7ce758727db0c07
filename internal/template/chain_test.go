package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/template"
)

var chainNames = &template.Names{
	Input:  []string{"order", "note"},
	Steps:  map[string][]string{"reserve": {"id"}},
	Item:   true,
	Output: []string{"id"},
}

func fill(t require.TestingT, text string, of template.Field, values map[string]any) (string, error) {
	parsed, faults := template.Parse(text, template.Options{Field: of, Chain: chainNames})
	require.Empty(t, faults)
	return parsed.Fill(values, 1<<20)
}

func TestFillLeavesWhatARunFillsIn(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"input":  map[string]any{"order": map[string]any{"id": json.Number("7"), "sku": "a b"}},
		"steps":  map[string]any{"reserve": map[string]any{"output": map[string]any{"id": "r/1"}}},
		"item":   []any{json.Number("1"), "two"},
		"output": map[string]any{"id": "o1"},
	}
	for _, tc := range []struct {
		text, want string
		of         template.Field
	}{
		{"https://a.example/{{steps.reserve.output.id}}?x={{input.order.sku}}", "https://a.example/r%2F1?x=a%20b", template.URL},
		{`{"order": {{input.order}}, "of": {{item}}, "run": "{{run.id}}"}`, `{"order": {"id":7,"sku":"a b"}, "of": [1,"two"], "run": "{{run.id}}"}`, template.JSON},
		{`{"note": {{input.note}}}`, `{"note": null}`, template.JSON},
		{`{{secret "token"}} {{output.id}} {{input.note | default "none"}}`, `{{secret "token"}} o1 none`, template.Header},
	} {
		got, err := fill(t, tc.text, tc.of, values)
		require.NoError(t, err)
		require.Equal(t, tc.want, got)
	}
	_, err := fill(t, "a {{input.note}}", template.Text, values)
	require.ErrorContains(t, err, "input.note is missing; give a default")
}

// TestAValueOfAChainIsNoTemplate fills in texts that hold actions, and parses the result again: no
// value becomes an action, and rendering gives the text of the value back.
func TestAValueOfAChainIsNoTemplate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		note := rapid.StringMatching(`[{}a-z" |]{0,12}(\{\{secret "x"\}\})?\{?`).Draw(rt, "note")
		values := map[string]any{"input": map[string]any{"note": note, "order": map[string]any{note + "k": note}}}
		for text, of := range map[string]template.Field{
			"{{input.note}}{":                  template.Text,
			"{ {{input.note}}{{input.note}} {": template.Header,
			`{"a": "{{input.note}}{", "b": {{input.order}}, "c": [{{input.note}}]}`: template.JSON,
			"<a>{{input.note}}</a>": template.XML,
			"a={{input.note}}":      template.Form,
		} {
			if note == "" && of != template.JSON {
				continue
			}
			filled, err := fill(rt, text, of, values)
			require.NoError(rt, err)
			again, faults := template.Parse(filled, template.Options{Field: of})
			require.Empty(rt, faults, filled)
			shown := filled
			if again != nil {
				require.Empty(rt, again.Secrets(), filled)
				shown, err = again.Render(&template.Values{}, 1<<20)
				require.NoError(rt, err)
			}
			switch of {
			case template.Text:
				require.Equal(rt, note+"{", shown)
			case template.JSON:
				var got struct {
					A string
					B map[string]string
					C []string
				}
				require.NoError(rt, json.Unmarshal([]byte(shown), &got))
				require.Equal(rt, note+"{", got.A)
				require.Equal(rt, map[string]string{note + "k": note}, got.B)
				require.Equal(rt, []string{note}, got.C)
			case template.URL, template.Header, template.Form, template.XML:
			}
		}
	})
}

func TestNamesOfAChainAreClosed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{{input.other}}":             `"other" is not declared; there are note, order`,
		"{{input}}":                   "write input.NAME, steps.STEP.output.NAME, item, output.NAME",
		"{{steps.charge.output.id}}":  `step "charge" is not one that this step comes after; add it to after`,
		"{{steps.reserve.output.at}}": `"at" is not declared; there are id`,
		"{{steps.reserve}}":           "is not a value of a chain",
		"{{else.x}}":                  "there are input.NAME",
	} {
		_, faults := template.Parse(text, template.Options{Chain: chainNames})
		require.Len(t, faults, 1, text)
		require.Contains(t, faults[0].Error(), want)
	}
	_, faults := template.Parse("{{input.order}}", template.Options{})
	require.Len(t, faults, 1, "outside a chain there is no input")
	require.False(t, strings.Contains(faults[0].Error(), "steps."))
}
