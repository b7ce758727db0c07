// Package migrations holds the schema: versioned SQL with an up and a down part each, embedded into every program.
//
// The schema is the last line of defence of every rule: its checks repeat what the API validates, so that no path around the API
// can store what workers could not handle.
package migrations

import "embed"

// FS holds the migrations in goose's format.
//
//go:embed *.sql
var FS embed.FS
