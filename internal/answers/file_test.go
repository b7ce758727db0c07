package answers

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreServedAsTheyAreOrCompressed(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, err := pack.Write([]byte("let a = 1"))
	require.NoError(t, err)
	require.NoError(t, pack.Close())
	file := NewFile("a.js.gz", packed.Bytes())

	zipped := ask(file, "Accept-Encoding", "gzip, br")
	require.Equal(t, "gzip", zipped.Header().Get("Content-Encoding"))
	require.Equal(t, packed.Bytes(), zipped.Body.Bytes())
	plain := ask(file)
	require.Empty(t, plain.Header().Get("Content-Encoding"))
	require.Equal(t, "let a = 1", plain.Body.String())
	for _, answer := range []*httptest.ResponseRecorder{zipped, plain} {
		require.Equal(t, http.StatusOK, answer.Code)
		require.Equal(t, "text/javascript; charset=utf-8", answer.Header().Get("Content-Type"))
		require.Equal(t, "Accept-Encoding", answer.Header().Get("Vary"))
	}
	require.Equal(t, http.StatusNotModified, ask(file, "Accept-Encoding", "gzip", "If-None-Match", zipped.Header().Get("Etag")).Code)
	require.Equal(t, http.StatusOK, ask(NewFile("a.js", []byte("let a = 2")), "If-None-Match", zipped.Header().Get("Etag")).Code)
	require.Equal(t, "text/html; charset=utf-8", ask(NewFile("a.html", nil)).Header().Get("Content-Type"))
	require.Equal(t, packed.Len(), file.Size())
}

// ask returns the answer to a request with headers, name by value.
func ask(file File, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	file.ServeHTTP(w, r)
	return w
}
