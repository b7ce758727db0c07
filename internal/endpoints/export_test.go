package endpoints

import (
	"time"

	"rubato/internal/governor"
)

// Passed returns the due times by an input that lie after an instant and not after another.
func Passed(in governor.Input, after, until time.Time) Skip {
	return grids(in)[0].span(after, until)
}
