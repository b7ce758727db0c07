package egress

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"rubato/internal/egress/egresstest"
)

// TestARingKeepsTheLastBytes writes pieces of any size and compares with the end of all of them.
func TestARingKeepsTheLastBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(rt, "size")
		r := &ring{buffer: make([]byte, 0, size), size: size}
		var all []byte
		for _, piece := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 50)).Draw(rt, "pieces") {
			n, err := r.Write(piece)
			if n != len(piece) || err != nil {
				rt.Fatalf("wrote %d, %v", n, err)
			}
			all = append(all, piece...)
			if want := all[max(len(all)-size, 0):]; string(r.bytes()) != string(want) {
				rt.Fatalf("kept %v, want %v", r.bytes(), want)
			}
		}
	})
}

// TestTailOfACompressedBody reads a gzip stream beyond the limit, and counts decompressed bytes.
func TestTailOfACompressedBody(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("0123456789", 30_000)
	target := egresstest.Start(t, egresstest.Answer(encoded(zipped(t, []byte(body)))))
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, nil)
	r := get(target.URL())
	r.MaxBody, r.MaxTail = 1000, 500
	for range 2 {
		response, err := client.Do(t.Context(), r)
		require.NoError(t, err)
		require.True(t, response.Truncated)
		require.Equal(t, body[:1000], string(response.Body))
		require.Equal(t, body[len(body)-500:], string(response.Tail))
		require.Equal(t, int64(len(body)), response.BytesRead)
	}
	require.Equal(t, 1, target.Requests()[1].Conn, "what was read to its end leaves the connection to the next call")
}

// TestTheEndOfAPackedBodyMayBeTooFarAway: where unpacking ends before the end of the body is there,
// the head is the answer, as it is for a long body that is not packed.
func TestTheEndOfAPackedBodyMayBeTooFarAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("packing the bodies takes the race detector a quarter of a minute") //nolint:forbidigo // -short alone leaves it out.
	}
	noise := make([]byte, maxPacked+maxPacked/2)
	_, _ = rand.Read(noise)
	for name, body := range map[string][]byte{"LongPacked": noise, "FarUnpacked": make([]byte, 8<<20)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := egresstest.Start(t, egresstest.Once(encoded(zipped(t, body))))
			r := get(target.URL())
			r.MaxBody, r.MaxTail = 1000, 500
			response, err := setup(t).Do(t.Context(), r)
			require.NoError(t, err)
			require.True(t, response.Truncated)
			require.Equal(t, body[:1000], response.Body)
			require.Empty(t, response.Tail)
		})
	}
}

// TestPhasesAddUpOverTLS has a fresh and a kept connection.
func TestPhasesAddUpOverTLS(t *testing.T) {
	t.Parallel()
	certificate, roots := certify(t, "127.0.0.1", time.Now().Add(12*time.Hour))
	const pause = 20 * time.Millisecond
	target := egresstest.StartTLS(t, serving(certificate), func(c *egresstest.Conn) {
		for {
			if _, ok := c.Next(); !ok {
				return
			}
			<-time.After(pause)
			if !c.Write(egresstest.OK("ok")) {
				return
			}
		}
	})
	client := setupTLS(t, roots)
	for call := range 2 {
		response, err := client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
		p := response.Phases
		require.Equal(t, call == 0, p.Connect > 0)
		require.Equal(t, call == 0, p.TLS > 0)
		require.GreaterOrEqual(t, p.Wait, pause)
		sum := p.DNS + p.Connect + p.TLS + p.Wait + p.Transfer
		require.GreaterOrEqual(t, p.Total, sum)
	}
}

// TestAnswersOfARedirectedHostAreMarked follows redirects within a host and to another one.
func TestAnswersOfARedirectedHostAreMarked(t *testing.T) {
	t.Parallel()
	other := egresstest.Start(t, egresstest.Answer(egresstest.OK("other")))
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			r, ok := c.Next()
			if !ok {
				return
			}
			answer := map[string]string{
				"/within": egresstest.Redirect("302 Found", "/here"), "/away": egresstest.Redirect("302 Found", other.URL()),
			}[r.URI]
			if answer == "" {
				answer = egresstest.OK("here")
			}
			if !c.Write(answer) {
				return
			}
		}
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, nil)
	for path, elsewhere := range map[string]bool{"/here": false, "/within": false, "/away": true} {
		r := get(target.URL() + path)
		r.MaxRedirects = 3
		response, err := client.Do(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, elsewhere, response.Elsewhere, path)
	}
}
