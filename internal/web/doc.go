// Package web is the console: pages for operators, live updates, charts, and all assets, embedded in the binary.
//
// It is a client of the REST API in the same process. Every read and change of endpoints and runs goes through
// the API's own handler as a request of the key that the session stands for: validation, scopes, limits, idempotency and the audit log
// apply because there is no way around them. Only the figures that the API does not have are read from elsewhere, and they are read only.
//
// Pages hold no script and no style of their own, and the policy of every answer forbids both. Data of targets and users is escaped as text.
package web
