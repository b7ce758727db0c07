// Package mcp offers the REST API to agents over the Model Context Protocol: one tool for every
// operation of the contract with one request and one response, and the documentation as resources.
//
// It knows nothing of endpoints or runs. A tool is made from the contract, a call becomes a request
// to the API with the key of the caller, and the response is returned unchanged: keys, scopes,
// limits, validation, idempotency and the audit log are those of the API, and an operation that is
// added to the contract is offered at once. Operations that stream (import, export, events) and
// those that need no key are not offered.
package mcp
