package web

import (
	"strings"
	"time"

	"rubato/client"
	"rubato/internal/endpoints"
)

// hintsInForce names each hint of an endpoint: its kind, author, end and reason.
func hintsInForce(e client.Endpoint) (list []string) {
	if h := e.Hints.Interval; h != nil {
		list = append(list, "interval hint of "+h.Author+": every "+ms(h.IntervalMs)+hintEnd(h.ExpiresAt, h.Reason))
	}
	if h := e.Hints.OneShot; h != nil {
		list = append(list, "one-shot hint of "+h.Author+": one run at "+dated(h.At)+hintEnd(h.ExpiresAt, h.Reason))
	}
	return list
}

func hintEnd(until time.Time, reason string) string {
	words := ", until " + dated(until)
	if reason != "" {
		words += ", because " + reason
	}
	return words
}

// plannersWork lists the planner's active changes of an endpoint.
func plannersWork(e client.Endpoint) []string {
	by := func(author string) bool { return strings.HasPrefix(author, endpoints.PlannerAuthor) }
	var own client.Endpoint
	if h := e.Hints.Interval; h != nil && by(h.Author) {
		own.Hints.Interval = h
	}
	if h := e.Hints.OneShot; h != nil && by(h.Author) {
		own.Hints.OneShot = h
	}
	list := hintsInForce(own)
	if reason := text(e.PauseReason); by(reason) && e.PausedUntil != nil {
		list = append(list, "pause until "+dated(*e.PausedUntil)+" of "+reason)
	}
	return list
}

// removedWords lists the removed hints and pauses of an API response.
func removedWords(e client.Endpoint) (list []string) {
	if e.Warnings == nil {
		return nil
	}
	for _, w := range *e.Warnings {
		if w.Removed() {
			list = append(list, sentence(w.Message))
		}
	}
	return list
}
