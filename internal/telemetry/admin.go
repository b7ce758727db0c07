package telemetry

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics returns a handler that serves the registry in the Prometheus format.
func Metrics(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r, EnableOpenMetrics: true})
}

// Admin returns the handler of the admin listener: /metrics, /healthz, /readyz and /debug/pprof/.
// It has no authentication, so the listener must not be public.
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

// alive answers 200 while the process can answer requests.
func alive(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// An error means that the prober has closed the connection.
	_ = json.NewEncoder(w).Encode(body)
}
