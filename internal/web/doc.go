// Package web is the console: pages for operators, live updates, charts, and all assets, embedded
// in the binary.
//
// It is a client of the REST API in the same process. It reads and changes endpoints and runs by
// requests to the API's handler with the principal of the session's key, so that validation,
// scopes, limits, idempotency and the audit log apply. Only statistics that the API does not offer
// are read from the store directly.
//
// Pages hold no inline script or style, and the Content-Security-Policy of every response forbids
// both. Data of targets and users is escaped as text.
package web
