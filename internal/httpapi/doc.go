// Package httpapi is the REST API: it turns requests into calls of the domain and answers into
// JSON.
//
// The contract in api/openapi.yaml is authoritative. Types, routes and the shape of handlers are
// generated from it, the scope that an operation needs is read from it, and requests are checked
// against it while they are served. The meaning of a request is judged by the domain alone, so that
// every rule has one place and one wording.
//
// A request passes, in this order: request ID, trace, compression, metrics, recovery from panics,
// origins, its time limit, the key, the rate limit, parameters, body, idempotency key, handler;
// [New] has the list. Each of them may refuse with an error, and one function turns errors into
// problem documents (RFC 9457).
package httpapi
