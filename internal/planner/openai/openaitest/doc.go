// Package openaitest is a chat completions server for tests whose every answer is scripted: models that help, err, refuse, obey
// whoever wrote last, and services that are slow, full, cut short or broken. It checks requests as strictly as the strictest service
// does, so that a request which only a lenient one would take fails a test.
package openaitest
