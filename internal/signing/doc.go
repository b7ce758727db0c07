// Package signing signs requests by Standard Webhooks, and defines the signing keys of a tenant. It
// stores nothing and reads no clock.
package signing
