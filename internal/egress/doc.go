// Package egress makes the outbound HTTP call of a run, and guards it against SSRF.
//
// Users choose the targets of a [Client], therefore it guarantees three properties for any target:
//
// Every failure is an [Error]. It has a [Reason], a text that is safe to show, and whether a byte
// of the request may have left.
package egress
