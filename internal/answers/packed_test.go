package answers_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/answers"
)

func TestALargeFileIsCompressedForSending(t *testing.T) {
	t.Parallel()
	style := strings.Repeat("body { margin: 0 }\n", 500)
	file := answers.NewFile("console.css", []byte(style))
	require.Equal(t, len(style), file.Size())
	for accepts, most := range map[string]int{"gzip": 500, "": len(style)} {
		r := httptest.NewRequest(http.MethodGet, "/console.css", nil)
		r.Header.Set("Accept-Encoding", accepts)
		answer := httptest.NewRecorder()
		file.ServeHTTP(answer, r)
		require.LessOrEqual(t, answer.Body.Len(), most)
		require.Equal(t, accepts, answer.Header().Get("Content-Encoding"))
		require.Equal(t, "text/css; charset=utf-8", answer.Header().Get("Content-Type"))
		body := io.Reader(answer.Body)
		if accepts != "" {
			var err error
			body, err = gzip.NewReader(answer.Body)
			require.NoError(t, err)
		}
		text, err := io.ReadAll(body)
		require.NoError(t, err)
		require.Equal(t, style, string(text))
	}
}
