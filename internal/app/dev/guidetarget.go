package dev

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"rubato/internal/callbacks"
)

// guidesPath is the path below which the demo's target serves the guides.
const guidesPath = "/guides"

// guideTarget returns the service that the commands in docs/guides call. The path alone selects a
// healthy, failing, busy or slow response, so that the commands work when pasted. Every other path
// answers with a greeting.
func guideTarget() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { greet(w, http.StatusOK) })
	mux.HandleFunc("/bad", func(w http.ResponseWriter, _ *http.Request) { greet(w, http.StatusInternalServerError) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "300")
		greet(w, http.StatusTooManyRequests)
	})
	mux.HandleFunc("/next", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Rubato-Next", "45")
		greet(w, http.StatusOK)
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/retired", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Rubato-Stop", "moved to /v2")
		greet(w, http.StatusOK)
	})
	mux.HandleFunc("/report", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"state": "degraded", "rows": 0, "user": map[string]any{"token": "tok_4711"}})
	})
	mux.HandleFunc("/feed", func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "feed.txt", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), strings.NewReader("news of the day"))
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"access_token": "an-access-token", "token_type": "Bearer", "expires_in": 3600})
	})
	mux.HandleFunc("/export", export)
	mux.HandleFunc("/render", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", guidesPath+"/render/1")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("/render/1", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"pages": 12})
	})
	mux.HandleFunc("/shop/", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, map[string]any{"id": path.Base(r.URL.Path) + "-1"})
	})
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/echo/", echo)
	return http.StripPrefix(guidesPath, mux)
}

func greet(w http.ResponseWriter, status int) {
	w.WriteHeader(status)
	// An error means that the caller has closed the connection.
	_, _ = io.WriteString(w, "hello")
}

// exportTimeout bounds the report of an export.
const exportTimeout = 10 * time.Second

// export accepts a job, and reports its end to the callback URL of the request.
func export(w http.ResponseWriter, r *http.Request) {
	callback := r.Header.Get(callbacks.Header)
	w.WriteHeader(http.StatusAccepted)
	if callback != "" {
		go reportExport(context.WithoutCancel(r.Context()), callback)
	}
}

// reportExport reports the end of an export.
func reportExport(ctx context.Context, callback string) {
	ctx, cancel := context.WithTimeout(ctx, exportTimeout)
	defer cancel()
	//nolint:gosec // The demo calls back its own server.
	report, err := http.NewRequestWithContext(ctx, http.MethodPost, callback, strings.NewReader(`{"status":"succeeded","body":{"rows":4182}}`))
	if err != nil {
		return
	}
	report.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(report) //nolint:gosec // Likewise.
	if err == nil {
		_ = answer.Body.Close()
	}
}

// echo answers with the method, path, Authorization header and body of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	asked, _ := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = fmt.Fprintf(w, "%s %s\nAuthorization: %s\n%s\n", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), asked) //nolint:gosec // text/plain with nosniff.
}
