// Package egress makes the outbound HTTP call of a run, and guards it against SSRF.
//
// Users choose the targets of a [Client], therefore it guarantees three properties for any target:
//
//   - Safe. The dialer checks each address after name resolution, on every dial and every redirect.
//     Therefore DNS rebinding does not bypass the check. [Policy] decides which addresses may be
//     called. It also checks URLs at registration, but only for early feedback to users.
//   - Exact. One [Client.Do] sends one request, and one more per followed redirect. The package has
//     its own connection pools, because the standard transport silently repeats idempotent requests
//     after a pooled connection has died. A request is sent again only if no byte of it left, once,
//     on another connection.
//   - Bounded. One timeout covers name resolution, connection, request and answer, and steps have
//     timeouts inside it. The header and the body of an answer are read up to a limit, and a budget
//     limits the other frames of HTTP/2.
//
// Every failure is an [Error]. It has a [Reason], a text that is safe to show, and whether a byte
// of the request may have left.
package egress
