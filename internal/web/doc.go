// Package web is the console: pages for people who watch and steer, live updates, charts, and all of their assets, in the binary.
//
// It is a client of the REST API in the same process. Whatever a page shows of endpoints and runs, and whatever it changes, goes through
// the API's own handler as a request of the key that the session stands for: validation, scopes, limits, idempotency and the audit log
// apply because there is no way around them. Only the figures that the API does not have are read from elsewhere, and they are read only.
//
// Pages hold no script and no style of their own, and the policy of every answer forbids both. What comes from a target or a user is text.
package web
