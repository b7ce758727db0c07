package main

import (
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/alecthomas/kong"
)

// instantText is the syntax of RFC 3339, as the API accepts it. Package time is more lenient: it
// also parses one-digit hours, decimal commas and offsets of 24 hours.
var instantText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// readInstant is the kong mapper of instants; kong adds the name of the flag to its errors. The
// zero time is an error, because it means that the flag is absent.
func readInstant(ctx *kong.DecodeContext, target reflect.Value) error {
	var written string
	if err := ctx.Scan.PopValueInto("instant", &written); err != nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, written)
	if err != nil || t.IsZero() || !instantText.MatchString(written) {
		return fmt.Errorf("%q is not a time; use RFC 3339 with a time zone, such as 2026-03-01T12:00:00Z", written)
	}
	target.Set(reflect.ValueOf(t))
	return nil
}
