package egress

import (
	"errors"
	"fmt"
)

// Codes of HTTP/2 that decide something; see RFC 9113, section 7.
const (
	codeProtocol       = 0x1
	codeFlowControl    = 0x3
	codeStreamClosed   = 0x5
	codeFrameSize      = 0x6
	codeRefusedStream  = 0x7
	codeCompression    = 0x9
	codeHTTP11Required = 0xd
)

// streamError is the end of one request over HTTP/2. The transport fills it in for [errors.As], which finds it by its fields: so
// their names and order must be these.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d ended with code %d", e.StreamID, e.Code)
}
func (e streamError) Unwrap() error { return e.Cause }

// fault returns err, with its reason where the protocol tells it.
func (s *session) fault(err error) error {
	if _, known := errors.AsType[*fault](err); known {
		return err
	}
	if ended, ok := errors.AsType[streamError](err); ok {
		return &fault{reason: ended.reason(), err: ended}
	}
	if s.frames.leaving() {
		return &fault{reason: ConnectionLost, err: errors.Join(errGoneAway, err)}
	}
	return err
}

// reason tells a target that ends a request from one that breaks the protocol. Whatever it says, the request had been sent.
func (e streamError) reason() Reason {
	switch e.Code {
	case codeProtocol, codeFlowControl, codeStreamClosed, codeFrameSize, codeCompression:
		return ProtocolError
	default:
		return ConnectionLost
	}
}

// wantsHTTP1 reports whether a target refused a request for the version of the protocol.
func wantsHTTP1(err error) bool {
	ended, ok := errors.AsType[streamError](err)
	return ok && ended.Code == codeHTTP11Required
}
