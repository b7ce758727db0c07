package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// An edit keeps line breaks in fields that it does not touch. Inputs of one line would drop them,
// so values with line breaks are shown in text areas.
func TestAnEditKeepsLineBreaks(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	var made client.Endpoint
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"name": "several lines", "url": "https://example.com/", "baselineCron": "0 9 * * 1-5", "success": "2xx,\n304", "body": "MSH|a\rPID|b\r", "method": "POST",
		"successRules": []map[string]any{
			{"type": "cel", "expression": "status == 200 // mostly\n&& size(body) > 0"},
			{"type": "body", "op": "notEquals", "value": "try\nlater"},
		},
		"redact": []map[string]any{{"pattern": "BEGIN\nkey", "replacement": "BEGIN\n-"}},
	}, &made)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints/" + made.ID + "/edit")
	b.await("document.querySelector('#draft [data-drafted]')")
	b.accessible()
	b.write("[name=name]", "still several lines")
	b.click(".submit [type=submit]")
	b.await("location.pathname === '/console/endpoints/" + made.ID + "'")
	var edited client.Endpoint
	w.api(t, http.MethodGet, "/v1/endpoints/"+made.ID, nil, &edited)
	require.Equal(t, "still several lines", edited.Name)
	require.Equal(t, made.SuccessRules, edited.SuccessRules)
	require.Equal(t, made.Redact, edited.Redact)
	require.Equal(t, made.BaselineCron, edited.BaselineCron)
	require.Equal(t, made.Success, edited.Success)
	require.Equal(t, made.Body, edited.Body)
	b.clean()
}
