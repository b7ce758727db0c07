package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

func TestALoadIsOneImportAfterAnother(t *testing.T) {
	t.Parallel()
	var lines, imports atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		imports.Add(1)
		_ = http.NewResponseController(w).EnableFullDuplex() // As the API does: it answers while it reads.
		body, created := bufio.NewScanner(r.Body), 0
		for body.Scan() {
			var spec client.EndpointSpec
			if json.Unmarshal(body.Bytes(), &spec) != nil || spec.Name != fmt.Sprint(lines.Add(1)-1) {
				http.Error(w, "not the next line", http.StatusBadRequest)
				return
			}
			created++
			_, _ = fmt.Fprintf(w, `{"line":%d,"status":"created"}`+"\n", created)
		}
		_, _ = fmt.Fprintf(w, `{"summary":{"complete":true,"created":%d}}`, created)
	}))
	t.Cleanup(api.Close)
	r, err := newRegistrar(api.URL, "key", 1, nil)
	require.NoError(t, err)

	const n = 2*importLines + 5
	took, err := r.load(t.Context(), n, func(n int) client.EndpointSpec { return client.EndpointSpec{Name: fmt.Sprint(n)} })

	require.NoError(t, err)
	require.Positive(t, took)
	require.EqualValues(t, n, lines.Load())
	require.EqualValues(t, 3, imports.Load())
}

func TestAnImportThatLeavesSomethingOutIsAnError(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"line":1,"status":"created"}`:                                                "ended before its summary",
		`{"line":2,"status":"failed","error":{"code":"validation_failed"}}`:            "line 2 was refused",
		`{"line":1,"status":"created"} {"summary":{"complete":true,"created":1}}`:      "1 of 2 endpoints were created",
		`{"summary":{"complete":false,"created":2},"error":{"code":"too_many_lines"}}`: "broken off after 2 of 2",
		`{"summary":{"complete":false,"created":2}}`:                                   "2 of 2 endpoints were created",
		`no JSON`: "reading the answer",
	} {
		require.ErrorContains(t, readResults(strings.NewReader(answer), 2), want)
	}
	require.NoError(t, readResults(strings.NewReader(`{"line":1,"status":"created"}{"line":2,"status":"created"}{"summary":{"complete":true,"created":2}}`), 2))
}
