package main

import (
	"fmt"
	"reflect"
	"time"

	"github.com/alecthomas/kong"

	"rubato/internal/notation"
)

// readDuration is the kong mapper of durations; kong adds the name of the flag to its errors.
// Fractions of a millisecond are an error, because the API counts in whole milliseconds.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var written string
	if err := ctx.Scan.PopValueInto("duration", &written); err != nil {
		return err
	}
	d, err := notation.ParseDuration(written, "")
	if err != nil {
		return fmt.Errorf("%q is not a duration; use a number with a unit, such as %s", written, exampleOf(written))
	}
	if below := d.Truncate(time.Millisecond); below != d {
		return fmt.Errorf("must be whole milliseconds, not %s; use %s or %s", d, below, below+time.Millisecond)
	}
	target.Set(reflect.ValueOf(d))
	return nil
}

// exampleOf returns a valid duration for an error message: the input in seconds if only the unit is
// missing, otherwise common examples.
func exampleOf(written string) string {
	if _, err := notation.ParseDuration(written, "s"); err == nil {
		return written + "s"
	}
	return "10s, 5m, 1h30m or 2d"
}
