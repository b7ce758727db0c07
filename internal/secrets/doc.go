// Package secrets manages the named secrets of a tenant: names, encryption at rest, references, and
// the values that a run uses.
//
// A value is write-only: no API returns it, and only the requests of runs contain it. At rest it is
// sealed by a [Keyring]. In memory it is a [Text], which formatting verbs, encoders and loggers
// print as a placeholder. A run reads values from the [Set] of its tenant. The package depends on
// neither the database nor the API.
package secrets
