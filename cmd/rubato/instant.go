package main

import (
	"fmt"
	"reflect"
	"regexp"
	"time"

	"github.com/alecthomas/kong"
)

// instantText is how RFC 3339 writes an instant, and how the API reads one: package time takes an hour of one digit, a comma and an offset
// of 24 hours as well.
var instantText = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// readInstant reads an instant, and says for people what one looks like. The zero time stands for a flag that is not given, so nobody can give
// it. The library names the flag.
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
