package console

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// An endpoint that cannot be paused keeps no other from being paused, and what was not done is told.
func TestABulkActionGoesOnPastARefusal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	v := w.visitor(t)
	v.signIn(w.key)
	archived, prices, orders := w.endpoint(t, "demo-report").ID, w.endpoint(t, "demo-prices").ID, w.endpoint(t, "demo-orders").ID
	w.api(t, http.MethodDelete, "/v1/endpoints/"+archived, nil, nil)
	a := v.ask("/console/endpoints/bulk", url.Values{"action": {"pause"}, "id": {prices, archived, orders}})
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Contains(t, a.body, "2 endpoints paused.")
	require.Contains(t, a.body, "1 endpoint was refused:")
	require.Contains(t, a.body, archived+": the endpoint is archived")
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-prices").State)
	require.Equal(t, client.EndpointStatePaused, w.endpoint(t, "demo-orders").State)
	a = v.ask("/console/endpoints/bulk", url.Values{"action": {"resume"}, "id": {archived}})
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.body, "0 of 1 were done")
}

// A label leads to the endpoints that have it, whatever stands in it.
func TestALabelWithBlanksIsFound(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"name": "labelled", "url": "https://example.com/", "baselineIntervalMs": 3_600_000, "labels": map[string]string{"team": `shop, "north" side`},
	}, nil)
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{"name": "bare", "url": "https://example.com/", "baselineIntervalMs": 3_600_000}, nil)
	chrome := browser(t)
	b := open(chrome, t, w, wide)
	b.visit(w.link)
	b.visit("/console/endpoints")
	b.click("a.label")
	b.await("location.search.includes('label') && document.querySelectorAll('#endpoints tbody tr').length === 1 && document.querySelector('#endpoints').innerText.includes('labelled')")
	b.clean()
}
