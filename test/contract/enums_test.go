package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// enum is an enumeration of words at a place in a body.
type enum struct {
	// path is the place as complaints name it, such as successRules[0].op.
	path string
	// words are the words of the contract.
	words []string
	// body returns a body that has a value at the place, and nothing else.
	body func(value any) any
}

// enumsOf returns the enumerations of a schema and of everything in it.
func enumsOf(path string, schema *openapi3.Schema, body func(any) any) (list []enum) {
	for _, alternative := range schema.OneOf {
		list = append(list, enumsOf(path, alternative.Value, body)...)
	}
	if len(schema.Enum) > 0 {
		list = append(list, enum{path, texts(schema.Enum), body})
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		list = append(list, enumsOf(strings.TrimPrefix(path+"."+name, "."), schema.Properties[name].Value, func(value any) any {
			return body(map[string]any{name: value})
		})...)
	}
	if schema.Items != nil {
		list = append(list, enumsOf(path+"[0]", schema.Items.Value, func(value any) any { return body([]any{value}) })...)
	}
	return list
}

func texts(values []any) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = fmt.Sprint(v)
	}
	return list
}

// unknownWords returns words that an enumeration does not have: empty, in another case, and padded.
func unknownWords(words []string) []string {
	list := []string{"", "unheard-of", " " + words[0]}
	for _, other := range []string{strings.ToUpper(words[0]), strings.ToLower(words[0])} {
		if other != words[0] && !slices.Contains(words, other) {
			list = append(list, other)
		}
	}
	return list
}

// complaint returns what a problem says of a field; empty: nothing.
func (p problem) complaint(field string) string {
	for _, e := range p.Errors {
		if e.Field == field {
			return e.Message
		}
	}
	return ""
}

// TestUnknownWordsInBodiesAreRefused sends unknown words for every enumeration of every body. Each
// answer is 422, names the field, and lists the words that are known. Nothing is written.
func TestUnknownWordsInBodiesAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	seen := 0
	for _, o := range operations() {
		if o.RequestBody == nil || o.lines() {
			continue
		}
		for media, content := range o.RequestBody.Value.Content {
			for _, e := range enumsOf("", content.Schema.Value, func(value any) any { return value }) {
				seen++
				t.Run(o.OperationID+" "+e.path, func(t *testing.T) { w.refusesUnknownWords(t, o, e, media) })
			}
		}
	}
	require.Greater(t, seen, 60)
}

func (w *world) refusesUnknownWords(t *testing.T, o operation, e enum, media string) {
	t.Helper()
	id := w.object(t, o)
	before := w.state(t)
	for _, word := range unknownWords(e.words) {
		body, err := json.Marshal(e.body(word))
		require.NoError(t, err)
		a := w.call(t, o.method, o.at(id), string(body), header("Content-Type", media))
		require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", body, a.body)
		requireNamed(t, a.problem(t).complaint(e.path), e.words, string(a.body))
	}
	require.Equal(t, before, w.state(t))
}

func requireNamed(t *testing.T, message string, words []string, about string) {
	t.Helper()
	require.NotEmpty(t, message, about)
	for _, word := range words {
		require.Contains(t, message, word, about)
	}
}

// TestUnknownWordsInQueriesAreRefused is the same for query parameters. The refusal is a 400.
func TestUnknownWordsInQueriesAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	seen := 0
	for _, o := range operations() {
		for _, p := range o.Parameters {
			schema := p.Value.Schema.Value
			if schema.Items != nil {
				schema = schema.Items.Value
			}
			if p.Value.In != openapi3.ParameterInQuery || len(schema.Enum) == 0 {
				continue
			}
			seen++
			t.Run(o.OperationID+" "+p.Value.Name, func(t *testing.T) {
				id := w.object(t, o)
				for _, word := range unknownWords(texts(schema.Enum)) {
					a := w.call(t, o.method, o.at(id)+"?"+p.Value.Name+"="+url.QueryEscape(word), "")
					require.Equal(t, http.StatusBadRequest, a.status, "%s", a.body)
					requireNamed(t, a.problem(t).complaint(p.Value.Name), texts(schema.Enum), string(a.body))
				}
			})
		}
	}
	require.Greater(t, seen, 10)
}

// TestUnknownWordsInLinesAreRefused is the same for the lines of an import, each of which is
// refused by itself.
func TestUnknownWordsInLinesAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	before := w.state(t)
	list := enumsOf("", contract().Components.Schemas["ImportLine"].Value, func(value any) any { return value })
	require.Greater(t, len(list), 10)
	for _, e := range list {
		for _, word := range unknownWords(e.words) {
			body, err := json.Marshal(e.body(word))
			require.NoError(t, err)
			a := w.call(t, "POST", "/v1/endpoints:import", string(body), header("Content-Type", lineMedia))
			require.Equal(t, http.StatusOK, a.status, "%s", a.body)
			first, _, _ := strings.Cut(string(a.body), "\n")
			var line struct{ Error problem }
			require.NoError(t, json.Unmarshal([]byte(first), &line), "%s", a.body)
			requireNamed(t, line.Error.complaint(e.path), e.words, first)
		}
	}
	require.Equal(t, before, w.state(t))
}
