package dev

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

// demoTarget returns the service that the demo's endpoints call. Each route counts its requests and
// derives the response from the count, so that responses change. Only /load follows the clock.
// Below [guidesPath] it serves the target of the guides.
func demoTarget() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /heartbeat", counted(func(w http.ResponseWriter, n int64) {
		reply(w, http.StatusOK, map[string]any{"beat": n})
	}))
	mux.HandleFunc("GET /prices", counted(func(w http.ResponseWriter, n int64) {
		reply(w, http.StatusOK, map[string]any{"item": "tea", "cents": price(n)})
	}))
	mux.HandleFunc("GET /report", counted(func(w http.ResponseWriter, n int64) {
		reply(w, http.StatusOK, map[string]any{"report": n, "written": time.Now().UTC().Format(time.RFC3339)})
	}))
	mux.HandleFunc("GET /flaky", counted(flaky))
	mux.HandleFunc("GET /load", counted(rush{rushHalf, time.Now()}.serve))
	mux.HandleFunc("POST /orders", counted(func(w http.ResponseWriter, n int64) {
		reply(w, http.StatusAccepted, map[string]any{"order": 1000 + n})
	}))
	mux.Handle(guidesPath+"/", guideTarget())
	return mux
}

// counted passes the number of the request, from 0, to a handler.
func counted(handle func(http.ResponseWriter, int64)) http.HandlerFunc {
	var seen atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) { handle(w, seen.Add(1)-1) }
}

// flaky fails three times out of five in a row, so that its endpoint backs off and recovers.
func flaky(w http.ResponseWriter, n int64) {
	if n%5 < 3 {
		reply(w, http.StatusInternalServerError, map[string]any{"error": "out of tea", "failure": n%5 + 1})
		return
	}
	reply(w, http.StatusOK, map[string]any{"tea": "served"})
}

// rushHalf is how long the load rises, and how long it rests afterwards. The planner analyses an
// endpoint that it slowed to 8 s every 48 s, and needs three responses that differ. In less than
// two minutes it would often miss the load.
const rushHalf = 3 * time.Minute

// rush is periodic load: in one half of the period every response differs from the one before, and
// in the other half all are equal. The first period begins at since.
type rush struct {
	half  time.Duration
	since time.Time
}

func (r rush) serve(w http.ResponseWriter, n int64) {
	if time.Since(r.since)/r.half%2 == 0 {
		reply(w, http.StatusOK, map[string]any{"rush": true, "queue": 100 + n%900})
		return
	}
	reply(w, http.StatusOK, map[string]any{"rush": false, "queue": 0})
}

// price wanders up and down between 240 and 340.
func price(n int64) int64 {
	swing := n * 7 % 200
	return 240 + min(swing, 200-swing)
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the caller has closed the connection.
	_ = json.NewEncoder(w).Encode(body)
}
