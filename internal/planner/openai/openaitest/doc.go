// Package openaitest is a chat completions server for tests with scripted responses: models that
// help, fail, refuse or obey injected text, and services that are slow, overloaded, truncated or
// broken. It validates requests as strictly as the strictest service, so that a request which only
// a lenient service accepts fails the test.
package openaitest
