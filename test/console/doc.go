// Package console drives the console in a real Chromium, against a real server with live data.
package console
