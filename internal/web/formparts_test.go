package web

import (
	"html"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/contract"
)

// A field that is new in the contract needs no line of the console: its input, its label, its
// default and its fact follow.
func TestEveryFieldStandsInTheForm(t *testing.T) {
	t.Parallel()
	f := newForm(map[string]string{})
	var page strings.Builder
	require.NoError(t, formBody(f).Render(t.Context(), &page))
	rest := page.String()
	for _, field := range contract.Fields() {
		if field.Kind == contract.Composite {
			var part strings.Builder
			require.NoError(t, compositePart(f, field).Render(t.Context(), &part))
			require.Contains(t, part.String(), html.EscapeString(field.Label), "%s has parts and no template", field.Path)
			require.Contains(t, page.String(), part.String(), field.Path)
			continue
		}
		at := strings.Index(rest, `name="`+field.Path+`"`)
		require.Positive(t, at, "%s is not in the form, or not where the contract has it", field.Path)
		require.Contains(t, page.String(), html.EscapeString(field.Label), field.Path)
		require.Contains(t, page.String(), `title="`+html.EscapeString(field.Help)+`"`, field.Path)
		require.Contains(t, page.String(), `data-error-of="`+field.Path+`"`)
		for _, choice := range field.Choices {
			require.Contains(t, page.String(), `<option value="`+choice+`"`, field.Path)
		}
		rest = rest[at:]
	}
	for _, group := range formGroups() {
		require.Contains(t, page.String(), "<legend>"+group.name+"</legend>")
	}
}

// TestFormFieldsRoundTrip fills each kind of field and parses its value back.
func TestFormFieldsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, field := range contract.Fields() {
		values := map[contract.Kind]any{
			contract.Text: "a text", contract.Link: "https://x.example/", contract.Lines: "two\nlines", contract.Length: 90_000.0, contract.Number: 7.0, contract.Switch: true,
			contract.Instant: "2030-01-02T03:04:05Z", contract.Pairs: map[string]any{"a": "b", "c": "d"},
			contract.List: []any{"$.a", "$..b"},
		}
		if field.Kind == contract.Choice {
			values[field.Kind] = field.Choices[len(field.Choices)-1]
		}
		want, written := values[field.Kind]
		require.Equal(t, field.Kind != contract.Composite, written, field.Path)
		if !written {
			continue
		}
		got, err := readField(field, fieldText(field, want))
		require.NoError(t, err, field.Path)
		require.Equal(t, want, got, field.Path)
		require.NotEmpty(t, factWords(field, want), "%s is listed on the page of the endpoint", field.Path)
	}
}

func TestFactsAreFieldsThatAreNotOff(t *testing.T) {
	t.Parallel()
	e := client.Endpoint{
		ID: "ep_1", Version: 3, Name: "n", URL: "u", Method: "GET", BaselineIntervalMs: new(int64(60_000)), Timezone: "UTC", TimeoutMs: 30_000, FollowRedirects: 2,
		Sign: true, Headers: map[string]string{"A": "b"}, Auth: &client.Auth{Type: "bearer"}, Redact: &[]client.RedactRule{{}, {}}, Body: new("{}"),
		Retry: client.Retry{MaxAttempts: 1}, Breaker: true,
	}
	list, blocks := facts(e)
	require.Equal(t, []fact{
		{title: "Id", value: "ep_1"},
		{title: "Interval", value: "1 min"},
		{title: "Request timeout", value: "30 s", common: true},
		{title: "Maximum redirects", value: "2"},
		{title: "Maximum attempts", value: "1", common: true},
		{title: "Follow Rubato-Next", value: "no"},
		{title: "Circuit breaker", value: "yes", common: true},
		{title: "Authentication", value: "bearer"},
		{title: "Signed", value: "yes"},
		{title: "Conditional", value: "no"},
		{title: "Redaction", value: "2"},
		{title: "Version", value: "3"},
	}, list)
	require.Equal(t, []fact{{title: "Headers", value: "A: b"}, {title: "Body", value: "{}"}}, blocks)
}

// TestAClearedBoxTurnsADefaultOff reads the form of an endpoint in which no box is ticked.
func TestAClearedBoxTurnsADefaultOff(t *testing.T) {
	t.Parallel()
	for _, field := range contract.Fields() {
		if field.Kind != contract.Switch {
			continue
		}
		got, err := readField(field, "")
		require.NoError(t, err)
		if field.Default == true {
			require.Equal(t, false, got, field.Path)
		} else {
			require.Nil(t, got, field.Path)
		}
	}
}

// A runbook is a link beside failures, and among the facts always.
func TestARunbookIsShownWithFailures(t *testing.T) {
	t.Parallel()
	const link = `<a href="https://wiki.example.com/shop" rel="noreferrer noopener">https://wiki.example.com/shop</a>`
	e := client.Endpoint{Name: "n", RunbookURL: new("https://wiki.example.com/shop"), Timezone: "UTC"}
	render := func(part templ.Component) string {
		var page strings.Builder
		require.NoError(t, part.Render(t.Context(), &page))
		return page.String()
	}
	require.NotContains(t, render(endpointParts(endpointView{endpoint: e})), link)
	require.Contains(t, render(endpointPage(endpointView{endpoint: e})), link, "it is a fact")
	e.FailureCount = 1
	require.Contains(t, render(endpointParts(endpointView{endpoint: e})), "<strong>Runbook.</strong>")
	require.Contains(t, render(endpointParts(endpointView{endpoint: e})), link)
	for _, status := range []client.RunStatus{"running", "succeeded", "failed", "timed_out", "canceled", "lost", "skipped"} {
		page := render(runPage(story{endpoint: e, run: client.Run{Status: status}}))
		require.Equal(t, status.Failed(), strings.Contains(page, link), status)
	}
	e.RunbookURL = nil
	require.NotContains(t, render(endpointParts(endpointView{endpoint: e})), "Runbook")
}
