// Package secrets knows the named secrets of a tenant: how they are called, how they are encrypted at rest, who refers to them, and
// what a run gets of them.
//
// A value comes in once and never goes out again, except into the request of a run. At rest it is sealed by a [Keyring]; in memory it
// is a [Text], which no formatting verb, encoder or logger shows; a run reads it from the [Set] of its tenant. The package knows
// neither the database nor the API.
package secrets
