package apiserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"rubato/internal/errs"
	"rubato/internal/httpapi"
)

// maxExplainLine is the size limit of a request body in the API, in bytes, so that both accept the
// same inputs.
const maxExplainLine = 512 << 10

// Explain reads one governor input per line and writes one decision per line, as POST /v1/explain
// does. It writes each decision before it reads the next line. For a refused line it writes an
// object with the error; it skips empty lines. now supplies the instant for an input without one.
// Explain returns the number of refused lines, and an error if reading or writing fails.
func Explain(in io.Reader, out io.Writer, now func() time.Time) (refused int, err error) {
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		line, whole, last, err := readLine(lines)
		if err != nil {
			return refused, fmt.Errorf("reading line %d: %w", n, err)
		}
		if !whole || len(bytes.TrimSpace(line)) > 0 {
			answer, fault := explainLine(line, whole, now())
			if fault != nil {
				refused++
				answer = refusal(fault, n)
			}
			if _, err := out.Write(append(answer, '\n')); err != nil {
				return refused, fmt.Errorf("writing the answer to line %d: %w", n, err)
			}
		}
		if last {
			return refused, nil
		}
	}
}

func explainLine(line []byte, whole bool, now time.Time) ([]byte, error) {
	if !whole {
		return nil, httpapi.ErrLineTooLong
	}
	answer, err := httpapi.Explain(bytes.TrimRight(line, "\r\n"), now)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace(answer), nil
}

// readLine returns the next line. If the line is too long, it is discarded and whole is false. The
// last line is the text after the last line break; it is empty if the input ends with one.
func readLine(r *bufio.Reader) (line []byte, whole, last bool, err error) {
	whole = true
	for {
		part, err := r.ReadSlice('\n')
		if whole && len(line)+len(part) <= maxExplainLine+1 {
			line = append(line, part...)
		} else {
			line, whole = nil, false
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return line, whole, true, nil
		default:
			return line, whole, false, err
		}
	}
}

// refusal returns the error object for line n. It includes internal errors, because the output goes
// to the user's own terminal.
func refusal(err error, n int) []byte {
	type body struct {
		Code   string       `json:"code"`
		Detail string       `json:"detail"`
		Errors []errs.Field `json:"errors,omitempty"`
	}
	detail := body{
		Code:   string(errs.CodeOf(err)),
		Detail: err.Error(),
		Errors: errs.FieldsOf(err),
	}
	if known, ok := errors.AsType[*errs.Error](err); ok {
		detail.Detail = known.Message
		if known.Reason != "" {
			detail.Code = known.Reason
		}
	}
	text, err := json.Marshal(struct {
		Error body `json:"error"`
		Line  int  `json:"line"`
	}{detail, n})
	if err != nil {
		panic(fmt.Sprintf("strings always have a JSON form: %v", err))
	}
	return text
}
