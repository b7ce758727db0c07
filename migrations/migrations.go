// Package migrations embeds the schema into every program: SQL files by subject, each with an up
// and a down part.
//
// The schema is the last line of defence. Its constraints repeat the validation of the API, so that
// a write past the API cannot store rows that workers could not handle.
package migrations

import "embed"

// FS contains the migrations in the format of goose.
//
//go:embed *.sql
var FS embed.FS
