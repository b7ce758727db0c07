package telemetry

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics returns a handler that serves everything in the registry.
func Metrics(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, EnableOpenMetrics: true})
}

// Admin returns the handler of the admin listener: /metrics, /healthz, /readyz and /debug/pprof/. It asks for no key, so the
// listener must not be public.
func Admin(r *prometheus.Registry, health *Health) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", Metrics(r))
	mux.HandleFunc("GET /healthz", alive)
	mux.Handle("GET /readyz", health)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// alive answers as long as the process answers at all.
func alive(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // A prober that went away needs no answer.
}
