package items

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/endpoints"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
)

// TestColumnsForgetTheirBatch looks at all memory that columns have: nothing of a batch is in it
// once it is over.
func TestColumnsForgetTheirBatch(t *testing.T) {
	t.Parallel()
	c := takeColumns(2)
	b := &batch{columns: c}
	c.rows[[16]byte{2}] = &dbsqlc.Schedule{}
	run := runs.Run{ID: runs.ID{1}, EndpointID: [16]byte{2}, Outcome: runs.Outcome{
		Status: runs.Failed, Error: "no answer", Body: []byte("body"), ContentType: "text/plain", Tail: []byte("tail"),
	}}
	for range 3 { // One more than there was room for.
		c.history.Add(run, 7, 1, nil)
		b.plan(&endpoints.Endpoint{ID: endpoints.ID{2}, State: endpoints.State{LastRun: &endpoints.LastRun{Status: "failed"}}}, false)
	}
	c.history.FillFeed()
	c.endpoints[0].Spec.Name = "probe"
	c.running[runKeyOf(run)] = &dbsqlc.Schedule{}

	c.empty()

	require.Empty(t, c.running)
	require.Empty(t, c.rows)
	columns := reflect.ValueOf(*c)
	require.Zero(t, columns.FieldByName("endpoints").Len())
	for i := range cap(c.endpoints) {
		require.Zero(t, c.endpoints[:cap(c.endpoints)][i])
	}
	arrays := 0
	eachArray(func(array reflect.Value) {
		arrays++
		require.Zero(t, array.Len())
		for whole, i := array.Slice(0, array.Cap()), 0; i < whole.Len(); i++ {
			require.True(t, whole.Index(i).IsZero(), "element %d of an array of %s", i, array.Type().Elem())
		}
	}, &c.next, &c.history.Rows, &c.history.Bodies)
	require.Greater(t, arrays, 45)
}
