package egress

import (
	"errors"
	"fmt"
)

// HTTP/2 error codes that affect the reason; see RFC 9113, section 7.
const (
	codeProtocol       = 0x1
	codeFlowControl    = 0x3
	codeStreamClosed   = 0x5
	codeFrameSize      = 0x6
	codeRefusedStream  = 0x7
	codeCompression    = 0x9
	codeHTTP11Required = 0xd
)

// streamError is the error of one HTTP/2 stream. Keep the names and order of its fields, because
// [errors.As] in the transport matches and fills them by reflection.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string {
	return fmt.Sprintf("stream %d ended with code %d", e.StreamID, e.Code)
}
func (e streamError) Unwrap() error { return e.Cause }

// fault returns err with its reason, if an HTTP/2 error code or a GOAWAY determines it.
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

// reason distinguishes a protocol error from a request ended by the target. With every code, the
// request had been sent.
func (e streamError) reason() Reason {
	switch e.Code {
	case codeProtocol, codeFlowControl, codeStreamClosed, codeFrameSize, codeCompression:
		return ProtocolError
	default:
		return ConnectionLost
	}
}

// wantsHTTP1 reports whether the target requires HTTP/1.1 for the request.
func wantsHTTP1(err error) bool {
	ended, ok := errors.AsType[streamError](err)
	return ok && ended.Code == codeHTTP11Required
}
