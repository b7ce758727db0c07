package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"rubato/api"
)

// specOf returns the schema of an endpoint as a library reads it.
func specOf(t *testing.T) *openapi3.Schema {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	require.NoError(t, err)
	return doc.Components.Schemas[specSchema].Value
}

// valueOf returns the schema of a property apart from null.
func valueOf(p *openapi3.Schema) *openapi3.Schema {
	for _, choice := range p.OneOf {
		if choice.Ref != "" {
			return choice.Value
		}
	}
	return p
}

// A property of the contract cannot be forgotten by the command line and the console: it needs a
// label and a group, or parts of its own.
func TestEveryPropertyOfAnEndpointIsAField(t *testing.T) {
	t.Parallel()
	known := map[string]Field{}
	for _, f := range Fields() {
		require.NotContains(t, known, f.Path, "described twice")
		known[f.Path] = f
	}
	check := func(path string, p, within *openapi3.Schema) {
		f, found := known[path]
		delete(known, path)
		require.True(t, found, "%s is no field; see internal/contract", path)
		require.NotEmpty(t, f.Label, "%s lacks x-ui.label", path)
		require.NotEmpty(t, f.Group, "%s lacks x-ui.group", path)
		require.NotEmpty(t, f.Help, "%s lacks a description", path)
		require.Equal(t, f.Kind == Pairs, f.Separator != "", "%s: x-ui.separator is for pairs", path)
		require.Equal(t, f.Kind == List, f.Form != "", "%s: x-ui.form is for lists", path)
		for _, ui := range []any{p.Extensions["x-ui"], within.Extensions["x-ui"]} {
			members, _ := ui.(map[string]any) // Absent: none.
			require.Subset(t, []string{
				"group", "label", "short", "row", "when", "flag", "alias", "placeholder", "form", "separator", "default", "initial", "lines", "verbatim", "quoted", "composite", "failure",
			}, slices.Collect(maps.Keys(members)), "%s: unknown member of x-ui", path)
		}
	}
	for name, p := range specOf(t).Properties {
		whole := valueOf(p.Value)
		if ui, _ := p.Value.Extensions["x-ui"].(map[string]any); ui["composite"] == true || len(whole.Properties) == 0 {
			check(name, p.Value, p.Value)
			continue
		}
		for member, inner := range whole.Properties {
			check(name+"."+member, inner.Value, p.Value)
		}
	}
	require.Empty(t, known, "fields that the contract does not have")
}

// Every property of an endpoint can be edited, imported and read.
func TestEveryPropertyIsInThePatchTheImportAndTheAnswer(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	require.NoError(t, err)
	for name := range specOf(t).Properties {
		for _, other := range []string{"EndpointPatch", "ImportLine", "Endpoint"} {
			require.Contains(t, doc.Components.Schemas[other].Value.Properties, name, other)
		}
	}
}

// What a printed endpoint has beside its configuration can be left out of it.
func TestReadOnlyMembersAreThoseOfAnEndpointAlone(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI()))
	require.NoError(t, err)
	printed := doc.Components.Schemas["Endpoint"].Value
	require.Subset(t, printed.Required, []string{"createdAt"}, "the command line tells a printed endpoint by it")
	var want []string
	for name := range printed.Properties {
		if specOf(t).Properties[name] == nil {
			want = append(want, name)
		}
	}
	require.ElementsMatch(t, want, ReadOnly())
	require.Subset(t, ReadOnly(), []string{"id", "createdAt", "hints", "lastRun", "warnings"})
}

// Form and help show groups one after the other, and put fields of a row side by side.
func TestFieldsOfAGroupAreBehindEachOther(t *testing.T) {
	t.Parallel()
	var groups, rows, flags []string
	for _, f := range Fields() {
		require.NotContains(t, flags, f.Flag, "%s: another field has this flag", f.Path)
		flags = append(flags, f.Flag)
		if len(groups) == 0 || groups[len(groups)-1] != f.Group {
			groups = append(groups, f.Group)
		}
		if f.Row != "" && (len(rows) == 0 || rows[len(rows)-1] != f.Row) {
			rows = append(rows, f.Row)
		}
	}
	slices.Sort(groups)
	require.Len(t, slices.Compact(groups), len(groups), "%s", groups)
	slices.Sort(rows)
	require.Len(t, slices.Compact(rows), len(rows), "%s", rows)
}

// Readers of the contract see defaults in the descriptions, programs in x-ui.
func TestDefaultsAreThoseOfTheDescriptions(t *testing.T) {
	t.Parallel()
	for name, p := range specOf(t).Properties {
		descriptions := map[string]string{name: p.Value.Description}
		for member, inner := range valueOf(p.Value).Properties {
			descriptions[name+"."+member] = inner.Value.Description
		}
		for path, description := range descriptions {
			f, found := Of(path)
			if !found || f.Kind == Composite {
				continue
			}
			require.Equal(t, f.Default != nil, strings.Contains(description, "Default "), "%s: %v, %q", path, f.Default, description)
			if f.Default != nil {
				require.Contains(t, description, fmt.Sprintf("Default %v", f.Default), path)
			}
		}
	}
}

// A new property becomes a field. Its type determines the kind of the field.
func TestANewPropertyIsAField(t *testing.T) {
	t.Parallel()
	const properties = "    EndpointSpec:\n      description: The configuration of an endpoint. Null means the default, as if the field were absent.\n" +
		"      type: object\n      additionalProperties: false\n      required: [name, url]\n      properties:\n"
	for line, want := range map[string]Field{
		`shareMs: {description: "Time to share. Default 5.", type: [integer, "null"], x-ui: {group: Schedule, label: Share, default: 5}}`: {
			Path: "shareMs", Kind: Length, Help: "Time to share.", Flag: "share", Default: 5.0, Initial: 5.0,
		},
		`maxSize: {description: How large., type: [integer, "null"], x-ui: {group: Schedule, label: Size, initial: 7, row: x}}`: {
			Path: "maxSize", Kind: Number, Help: "How large.", Flag: "max-size", Initial: 7.0, Row: "x",
		},
		`zone: {description: Where., type: [string, "null"], example: here, x-ui: {group: Schedule, label: Zone, flag: where}}`: {
			Path: "zone", Kind: Text, Help: "Where.", Flag: "where", Placeholder: "here",
		},
		`side: {description: Which., oneOf: [{$ref: "#/components/schemas/DSTGap"}, {type: "null"}], x-ui: {group: Schedule, label: Side, when: cron}}`: {
			Path: "side", Kind: Choice, Help: "Which.", Flag: "side", Choices: []string{"run", "skip"}, When: "cron",
		},
		`quiet: {description: Whether., type: [boolean, "null"], x-ui: {group: Schedule, label: Keep quiet, short: Quiet}}`: {
			Path: "quiet", Kind: Switch, Help: "Whether.", Flag: "quiet", Title: "Quiet",
		},
		`until: {description: How long., type: [string, "null"], format: date-time, x-ui: {group: Schedule, label: Until}}`: {
			Path: "until", Kind: Instant, Help: "How long.", Flag: "until",
		},
		`page: {description: Where to read., type: [string, "null"], format: uri, x-ui: {group: Schedule, label: Page, failure: true}}`: {
			Path: "page", Kind: Link, Help: "Where to read.", Flag: "page", OnFailure: true,
		},
	} {
		changed := strings.Replace(api.OpenAPI(), properties, properties+"        "+line+"\n", 1)
		require.NotEqual(t, api.OpenAPI(), changed)
		got := read(changed)[0]
		require.Equal(t, "Schedule", got.Group, line)
		require.NotEmpty(t, got.Label, line)
		if want.Title == "" {
			want.Title = got.Label
		}
		want.Label, want.Group, want.Rows = got.Label, got.Group, 2
		require.Equal(t, want, got, line)
	}
}

func TestAValueIsReadAndPutWhereThePathLeads(t *testing.T) {
	t.Parallel()
	endpoint := map[string]any{}
	for path, value := range map[string]any{"url": "https://x.example", "retry.maxAttempts": 3.0, "retry.backoffMs": 5.0} {
		f, found := Of(path)
		require.True(t, found)
		require.Nil(t, f.Value(endpoint))
		f.Put(endpoint, value)
		require.Equal(t, value, f.Value(endpoint))
	}
	text, err := json.Marshal(endpoint)
	require.NoError(t, err)
	require.JSONEq(t, `{"url": "https://x.example", "retry": {"maxAttempts": 3, "backoffMs": 5}}`, string(text))
	_, found := Of("retry")
	require.False(t, found)
}
