package egresstest

import (
	"fmt"
	"strings"
	"time"
)

// OK returns a complete answer with status 200 and body.
func OK(body string) string { return Status("200 OK", body) }

// Status returns a complete answer with the given status line and body.
func Status(status, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

// Redirect returns a redirect to location.
func Redirect(status, location string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nLocation: %s\r\nContent-Length: 0\r\n\r\n", status, location)
}

// Answer gives the same answer to every request and keeps the connection open.
func Answer(answer string) Script {
	return func(c *Conn) { answerTimes(c, answer, -1) }
}

// Steady is [Answer] for benchmarks. It answers each read as one request, and neither parses nor
// records it.
func Steady(answer string) Script {
	return func(c *Conn) {
		reply, request := []byte(answer), make([]byte, 64<<10)
		for {
			if _, err := c.conn.Conn.Read(request); err != nil {
				return
			}
			if _, err := c.conn.Write(reply); err != nil {
				return
			}
		}
	}
}

// Once gives one answer and closes the connection. A malformed answer simulates a target that sends
// garbage or stops early.
func Once(answer string) Script {
	return func(c *Conn) { answerTimes(c, answer, 1) }
}

// CloseAfterReading answers kept requests on a connection, reads the next one and closes without an
// answer.
func CloseAfterReading(kept int) Script {
	return func(c *Conn) {
		if answerTimes(c, OK("ok"), kept) {
			c.Next()
		}
	}
}

// CloseOnArrival answers kept requests on a connection and closes it at the first byte of the next
// one.
func CloseOnArrival(kept int) Script {
	return func(c *Conn) {
		if answerTimes(c, OK("ok"), kept) {
			c.Arrived()
		}
	}
}

// Hold sends head after a request, and then no byte until the client disconnects. With an empty
// head, the target never answers.
func Hold(head string) Script {
	return func(c *Conn) {
		if _, ok := c.Next(); ok && c.Write(head) {
			c.AwaitHangup()
		}
	}
}

// Endless sends head after a request, and then piece repeatedly, with the given pause, until the
// client disconnects. It simulates an endless body, a slow one, or a header without end.
func Endless(head, piece string, pause time.Duration) Script {
	return func(c *Conn) {
		if _, ok := c.Next(); !ok {
			return
		}
		text := head
		for c.Write(text) {
			text = piece
			if pause > 0 {
				<-time.After(pause)
			}
		}
	}
}

// HeaderBomb sends a header without end.
func HeaderBomb() Script {
	line := "X-Bomb: " + strings.Repeat("b", 1000) + "\r\n"
	return Endless("HTTP/1.1 200 OK\r\n", line, 0)
}

// answerTimes answers n requests, or all if n is negative. It returns false if the client has
// disconnected.
func answerTimes(c *Conn, answer string, n int) bool {
	for ; n != 0; n-- {
		if _, ok := c.Next(); !ok || !c.Write(answer) {
			return false
		}
	}
	return true
}
