package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogLinesAreJSONWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	logger := NewLogger(&out, slog.LevelInfo, "auto")

	logger.Debug("not wanted")
	logger.Info("claimed", "component", "claims", "due", time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("CET", 3600)), "grace", 25*time.Second)

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "exactly one line: %s", out.String())
	require.Equal(t, "claimed", line["msg"])
	require.Equal(t, "claims", line["component"])
	require.Equal(t, "2026-03-01T11:00:00Z", line["due"])
	require.Equal(t, "25s", line["grace"])
	stamp, err := time.Parse(time.RFC3339Nano, line["time"].(string))
	require.NoError(t, err)
	require.Equal(t, time.UTC, stamp.Location())
}

func TestLogLinesAreTextOnRequest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer

	NewLogger(&out, slog.LevelDebug, Text).Debug("claimed", "attempt", 2)

	require.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3}Z DBG claimed attempt=2\n$`, out.String())
}

func TestAdminServesMetricsHealthAndProfiles(t *testing.T) {
	t.Parallel()
	admin := Admin(NewRegistry(), NewHealth(slog.New(slog.DiscardHandler)))
	for path, want := range map[string]string{
		"/metrics":      "rubato_build_info{version=",
		"/healthz":      `{"status":"ok"}`,
		"/readyz":       `{"status":"ready","checks":[]}`,
		"/debug/pprof/": "goroutine",
	} {
		answer := get(admin, path)
		require.Equal(t, http.StatusOK, answer.Code, path)
		require.Contains(t, answer.Body.String(), want, path)
	}
	require.Contains(t, get(admin, "/metrics").Body.String(), "go_goroutines")
	require.Contains(t, get(admin, "/metrics").Body.String(), "go_build_info")
	require.Equal(t, http.StatusNotFound, get(admin, "/").Code)
}

func TestVersionIsTheReleaseOrTheCommit(t *testing.T) {
	t.Parallel()
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	for name, tc := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"Release":     {debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{commit}}, "v1.2.3"},
		"Commit":      {debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{commit}}, "0123456789ab"},
		"DirtyCommit": {debug.BuildInfo{Settings: []debug.BuildSetting{commit, {Key: "vcs.modified", Value: "true"}}}, "0123456789ab-dirty"},
		"Nothing":     {debug.BuildInfo{}, "devel"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, buildOf(&tc.info).version())
		})
	}
	require.NotEmpty(t, Version())
}

func TestLinkerOverridesTheVersion(t *testing.T) {
	t.Parallel()
	found := build{release: "v0.0.0-20260101000000-0123456789ab", commit: "0123456789ab"}
	for name, tc := range map[string]struct {
		release, commit string
		want            build
	}{
		"Neither":     {"", "", found},
		"Both":        {"v1.2.3", "fedcba", build{release: "v1.2.3", commit: "fedcba"}},
		"CommitAlone": {"", "fedcba", build{commit: "fedcba"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, found.linked(tc.release, tc.commit))
		})
	}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	return w
}
