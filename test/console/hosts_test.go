package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// TestHostIsLimitedEditedAndReset limits a host by its form, and closes the breaker of another.
func TestHostIsLimitedEditedAndReset(t *testing.T) {
	t.Parallel()
	w := setup(t)
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/hosts")
	b.click("[hx-get$='/hosts/new']")
	b.await("document.querySelector('#dialog[open] [name=host]')")
	b.fill("host", "API.example.com")
	b.fill("concurrency", "many")
	b.click("#dialog [type=submit]")
	b.says("must be a whole number")
	b.forget() // The browser logs the status of the refusal.
	b.fill("concurrency", "20")
	b.fill("rate", "2.5")
	b.confirms("Limit a host")
	b.says("20 in flight, 2.5 per s")
	b.shoot("hosts-limited")
	b.accessible()

	b.click("[aria-label='Edit api.example.com:443']")
	b.await("document.querySelector('#dialog[open] [name=rate]').value === '2.5'")
	b.fill("concurrency", "")
	b.fill("failuresToOpen", "9")
	b.fill("window", "1m")
	b.confirms("Edit api.example.com:443")
	b.says("0 of 9")
	var h client.Host
	w.api(t, http.MethodGet, "/v1/hosts/api.example.com", nil, &h)
	require.Nil(t, h.Limits.Concurrency)
	require.InDelta(t, 2.5, *h.Limits.Rate, 0)
	require.EqualValues(t, 60_000, h.WindowMs)

	var created client.Endpoint
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{
		"name": "at a host", "url": "https://api.example.com/orders", "baselineIntervalMs": 3_600_000, "startAt": "2198-01-01T00:00:00Z",
	}, &created)
	b.visit("/console/hosts")
	b.says("0 of 1")
	b.click("a[href='/console/endpoints?host=api.example.com%3A443']")
	b.await("document.querySelector('[name=host]').value === 'api.example.com:443'")
	b.await("document.querySelectorAll('#endpoints tbody tr').length === 1")
	b.says("at a host")
	b.clean()
}
