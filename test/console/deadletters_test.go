package console

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/waittest"
)

// givenUp has two one-off runs of an endpoint fail for good, and returns their dead letters.
func (w *world) givenUp(t *testing.T) []client.DeadLetter {
	t.Helper()
	var e client.Endpoint
	// No program listens at port 1.
	w.api(t, http.MethodPost, "/v1/endpoints", map[string]any{"name": "away", "url": "http://127.0.0.1:1/", "baselineCron": "0 0 1 1 *"}, &e)
	var list client.DeadLetterList
	for n := range 2 {
		w.api(t, http.MethodPost, "/v1/endpoints/"+e.ID+"/run", client.OneOffRun{}, nil)
		waittest.Until(t, func() bool {
			w.api(t, http.MethodGet, "/v1/dead-letters?endpointId="+e.ID, nil, &list)
			return len(list.Items) > n
		}, "the run is given up")
	}
	return list.Items
}

// TestDeadLettersAreReplayedAndDiscarded decides about two dead letters by their pages.
func TestDeadLettersAreReplayedAndDiscarded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	list := w.givenUp(t)
	first, second := list[0], list[1]
	b := open(browser(t), t, w, wide)
	b.visit(w.link)
	b.visit("/console/dead-letters")
	b.await("document.querySelectorAll('.letters tbody tr').length >= 2")
	b.shoot("dead-letters")
	b.accessible()

	b.visit("/console/dead-letters/" + first.ID)
	b.says("connect error")
	b.write("[name=reason]", "the report is old")
	b.click("[action$='/discard'] [type=submit]")
	b.says("Discarded. the report is old")
	b.shoot("dead-letter")
	b.accessible()

	b.visit("/console/dead-letters/" + second.ID)
	b.click("[action$='/replay'] [type=submit]")
	b.await("location.pathname.startsWith('/console/runs/')")
	var l client.DeadLetter
	w.api(t, http.MethodGet, "/v1/dead-letters/"+second.ID, nil, &l)
	require.Equal(t, client.DeadLetterStateReplayed, l.State)
	b.visit("/console/dead-letters?state=discarded")
	b.await("document.querySelectorAll('.letters tbody tr').length === 1")
	b.clean()
}
