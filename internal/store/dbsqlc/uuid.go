// Package dbsqlc holds the SQL of the store, one .sql file per table or act, and the code that sqlc
// generates from it. Only the store imports it.
package dbsqlc

// UUID is how the driver handles a uuid fastest: its sixteen bytes.
type UUID = [16]byte
