package answers

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswersAreKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"Silence": {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"Text":    {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, 200, "hello"},
		"Status": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			w.WriteHeader(http.StatusInternalServerError)
		}, 404, ""},
		"StatusLate": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("a"))
			w.WriteHeader(http.StatusInternalServerError)
		}, 200, "a"},
	} {
		var a Recorder
		a.Header().Set("X-Case", name)
		c.handler(&a, nil)
		require.Equal(t, c.status, a.Status(), name)
		require.Equal(t, c.body, a.Body.String(), name)
		require.Equal(t, name, a.Header().Get("X-Case"))
	}
}
