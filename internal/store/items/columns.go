package items

import (
	"reflect"
	"slices"
	"sync"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/history"
)

// columns holds the reusable buffers of a batch: about fifty arrays with one element per run. A
// sync.Pool recycles them, because they were a third of the allocations per recorded run. One
// goroutine owns a columns until release.
type columns struct {
	next      dbsqlc.ScheduleFinishParams
	history   history.Records
	endpoints []endpoints.Endpoint
	// running holds the locked rows of runs that are still live.
	running map[runKey]*dbsqlc.Schedule
	// rows holds the schedule rows by endpoint, as they were read.
	rows map[[16]byte]*dbsqlc.Schedule
}

var spareColumns = sync.Pool{New: func() any {
	return &columns{running: map[runKey]*dbsqlc.Schedule{}, rows: map[[16]byte]*dbsqlc.Schedule{}}
}}

// takeColumns returns empty columns with capacity for a number of runs.
func takeColumns(runs int) *columns {
	c := spareColumns.Get().(*columns) //nolint:forcetypeassert // The pool holds nothing else.
	grow(runs, &c.next, &c.history.Rows)
	c.endpoints = slices.Grow(c.endpoints, runs)[:runs]
	return c
}

// release empties the columns and returns them to the pool. The caller must not use them
// afterwards.
func (c *columns) release() {
	c.empty()
	spareColumns.Put(c)
}

func (c *columns) empty() {
	eachArray(func(array reflect.Value) {
		array.Clear() // Release the referenced memory to the garbage collector.
		array.SetLen(0)
	}, &c.next, &c.history.Rows, &c.history.Bodies)
	clear(c.endpoints)
	c.endpoints = c.endpoints[:0]
	clear(c.running)
	clear(c.rows)
}

// grow adds capacity for a number of elements to each array field of statement parameters.
func grow(by int, params ...any) {
	eachArray(func(array reflect.Value) { array.Grow(by) }, params...)
}

// eachArray calls visit for each array field of statement parameters.
func eachArray(visit func(array reflect.Value), params ...any) {
	for _, p := range params {
		for _, field := range reflect.ValueOf(p).Elem().Fields() {
			if field.Kind() == reflect.Slice {
				visit(field)
			}
		}
	}
}
