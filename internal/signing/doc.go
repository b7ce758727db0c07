// Package signing knows how requests are signed, by Standard Webhooks: what is signed, how a key is written, and which keys a tenant
// may have at once. It keeps nothing and reads no clock.
package signing
