package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

// history is a server that knows runs and lists them as the API does: from a due time on, two a page.
type history struct{ runs []client.Run }

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("from"))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	page := client.RunList{Items: []client.Run{}}
	for _, run := range slices.Backward(h.runs) {
		if run.ScheduledFor.Before(from) || r.URL.Query().Get("cursor") != "" && run.ID >= r.URL.Query().Get("cursor") {
			continue
		}
		if len(page.Items) == 2 {
			page.NextCursor = &page.Items[1].ID
			break
		}
		page.Items = append(page.Items, run)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

func (h *history) add(id string, due time.Time) {
	h.runs = append(h.runs, client.Run{ID: id, ScheduledFor: due, Status: client.RunStatusRunning})
}

func (h *history) finish(id string, at time.Time) {
	for i := range h.runs {
		if h.runs[i].ID == id {
			h.runs[i].Status, h.runs[i].FinishedAt = client.RunStatusSucceeded, &at
		}
	}
}

// A run that takes long is told when it ends, however many others came and went since it began.
func TestWatchTellsEveryRunOnceAndInTheOrderOfTheirEnds(t *testing.T) {
	t.Parallel()
	h := &history{}
	server := httptest.NewServer(h)
	defer server.Close()
	r, err := (&remote{url: server.URL, key: "any"}).open()
	require.NoError(t, err)
	begin := time.Now().Add(-10 * time.Minute)
	w := &watcher{remote: r, since: begin, printed: map[string]time.Time{}}
	poll := func() (ids []string) {
		fresh, err := w.poll(t.Context())
		require.NoError(t, err)
		for _, f := range fresh {
			ids = append(ids, f.run.ID)
		}
		return ids
	}

	h.add("run_1_long", begin)
	h.add("run_2", begin.Add(time.Second))
	h.add("run_3", begin.Add(2*time.Second))
	require.Empty(t, poll(), "nothing has ended")

	h.finish("run_3", begin.Add(3*time.Second))
	h.finish("run_2", begin.Add(4*time.Second))
	require.Equal(t, []string{"run_3", "run_2"}, poll())
	require.Empty(t, poll(), "each is told once")

	h.add("run_4", begin.Add(5*time.Minute))
	h.finish("run_4", begin.Add(5*time.Minute))
	require.Equal(t, []string{"run_4"}, poll())
	h.finish("run_1_long", begin.Add(6*time.Minute))
	require.Equal(t, []string{"run_1_long"}, poll())

	require.Empty(t, poll())
	require.Empty(t, poll())
	require.Equal(t, begin.Add(5*time.Minute-watchOverlap).UnixMilli(), w.since.UnixMilli(), "and no longer looks back to the long one")
	require.Len(t, w.printed, 1, "what is out of sight is forgotten")
}

func TestWatchTellsWhenTheServerIsGone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&history{})
	r, err := (&remote{url: server.URL, key: "any"}).open()
	require.NoError(t, err)
	server.Close()

	_, err = (&watcher{remote: r, since: time.Now(), printed: map[string]time.Time{}}).poll(t.Context())

	require.ErrorContains(t, err, "nothing listens at "+server.URL)
}
