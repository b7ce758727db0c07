package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"rubato/internal/errs"
)

// lines reads the lines of a body, however long some of them are.
type lines struct {
	reader *bufio.Reader
	number int // of the last line that was read
}

func newLines(body io.Reader, c *http.ResponseController) *lines {
	return &lines{reader: bufio.NewReaderSize(patient{body, c}, 64<<10)}
}

// ErrLineTooLong is about a line that is longer than the body of a request may be.
var ErrLineTooLong = errs.New(errs.Malformed, "line_too_long", fmt.Sprintf("the line must be at most %d bytes long", maxBody))

// next returns the next line without its end. The error is io.EOF after the last one,
// ErrLineTooLong for one that was passed over, or the body broke off.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := l.reader.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxBody+1 {
			line, long = nil, true
		}
		switch {
		case err == nil, errors.Is(err, io.EOF) && (len(line) > 0 || long):
			l.number++
			if long {
				return nil, ErrLineTooLong
			}
			return bytes.TrimRight(line, "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// patient reads a body for as long as something comes of it, where the server's own limit is for a
// whole request.
type patient struct {
	body       io.Reader
	controller *http.ResponseController
}

// Read reads on, within lineTimeout. A body without a connection has no deadline.
func (p patient) Read(b []byte) (int, error) {
	_ = p.controller.SetReadDeadline(time.Now().Add(lineTimeout))
	return p.body.Read(b)
}
