// Package egress makes the outbound HTTP call of a run, and guards it.
//
// A [Client] sends what its users ask to wherever they say, so three things must hold whatever a target does:
//
//   - Safe. The address that is about to be dialled is judged after the name was resolved, on every dial and every redirect hop:
//     a name that changes its address between two look-ups gains nothing. [Policy] is the authority on which addresses may be
//     called; it also checks URLs when they are registered, to tell users early, but no call relies on that check alone.
//   - Exact. One [Client.Do] puts one request on the wire (one for each redirect that it was asked to follow). The standard
//     transport silently repeats requests that it takes for harmless when a kept connection died, so connections are held and chosen
//     here, and each request is handed to one of them. Only a request of which provably no byte left is sent again, once, on
//     another connection.
//   - Bounded. One timeout covers name, connection, request and the whole answer, and steps have limits inside it; the header and
//     the body of an answer are read up to a cap and no further, and so is whatever else HTTP/2 may carry.
//
// Every failure is an [Error] with a [Reason], whether a byte of the request may have left, and a text that is safe to show.
package egress
