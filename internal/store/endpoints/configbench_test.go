package endpoints

import (
	"testing"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// BenchmarkReadConfig makes the row of an ordinary endpoint ready for use, as a worker does that
// does not have it in its cache. Its figures stand in docs/performance.md.
func BenchmarkReadConfig(b *testing.B) {
	spec := endpoints.Defaults()
	spec.Name, spec.URL, spec.BaselineInterval = "Shop health", "https://shop.example.com/health", time.Minute
	spec.Labels, spec.Headers = map[string]string{"team": "shop"}, map[string]string{"Accept": "application/json"}
	spec = spec.Normalize()
	row := dbsqlc.Endpoint{ID: endpoints.ID{1}, Version: 1, Spec: documentOf(&spec)}
	b.ReportAllocs()
	for b.Loop() {
		if c := parse(&row); c.Fault != nil {
			b.Fatal(c.Fault)
		}
	}
}
