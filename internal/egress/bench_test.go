package egress

import (
	"net/http"
	"testing"

	"rubato/internal/egress/egresstest"
)

// BenchmarkKeptConnection is the path of most runs: a small answer over a connection that was kept.
func BenchmarkKeptConnection(b *testing.B) {
	target := egresstest.Start(b, egresstest.Steady(egresstest.OK("ok")))
	client := New(Config{Rules: Rules{Allow: loopback()}})
	b.Cleanup(client.Close)
	r := get(target.URL())
	r.Meta = http.Header{"Rubato-Run-Id": {"run_bench"}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := client.Do(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
}
