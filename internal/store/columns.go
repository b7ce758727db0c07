package store

import (
	"reflect"
	"slices"
	"sync"

	"rubato/internal/endpoints"
	"rubato/internal/store/dbsqlc"
)

// columns is the memory of a batch of runs: some fifty arrays with a place for each of them. One batch after the other uses it; it was a third
// of what recording a run allocates.
type columns struct {
	next      dbsqlc.ScheduleFinishParams
	history   history
	endpoints []endpoints.Endpoint
	running   map[runKey]*dbsqlc.Schedule   // the rows of the runs that are still running
	rows      map[[16]byte]*dbsqlc.Schedule // as they were read
}

var spareColumns = sync.Pool{New: func() any {
	return &columns{running: map[runKey]*dbsqlc.Schedule{}, rows: map[[16]byte]*dbsqlc.Schedule{}}
}}

// takeColumns returns empty columns with room for so many runs.
func takeColumns(runs int) *columns {
	c := spareColumns.Get().(*columns) //nolint:forcetypeassert // Nothing else is put in.
	grow(runs, &c.next, &c.history.rows)
	c.endpoints = slices.Grow(c.endpoints, runs)[:runs]
	return c
}

// release leaves the columns to the next batch, empty. Nothing of this one may be used any more.
func (c *columns) release() {
	c.empty()
	spareColumns.Put(c)
}

func (c *columns) empty() {
	eachArray(func(array reflect.Value) {
		array.Clear() // What it points to must not stay.
		array.SetLen(0)
	}, &c.next, &c.history.rows, &c.history.bodies)
	clear(c.endpoints)
	c.endpoints = c.endpoints[:0]
	clear(c.running)
	clear(c.rows)
}

// grow makes room for so many more elements in each array among the parameters of statements.
func grow(by int, params ...any) {
	eachArray(func(array reflect.Value) { array.Grow(by) }, params...)
}

// eachArray visits the arrays among the parameters of statements.
func eachArray(visit func(array reflect.Value), params ...any) {
	for _, p := range params {
		for _, field := range reflect.ValueOf(p).Elem().Fields() {
			if field.Kind() == reflect.Slice {
				visit(field)
			}
		}
	}
}
