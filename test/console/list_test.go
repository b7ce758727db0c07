package console

import (
	"net/http"
	"testing"
)

// A link on a label filters the list by that label, also where the label contains blanks.
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
