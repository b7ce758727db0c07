package httpapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"rubato/internal/errs"
)

// maxBody bounds a request body: the largest body field, 256 KiB, as JSON that escapes every second
// character.
const maxBody = 512 << 10

// maxWaste is how much of a body that is too long is read and forgotten, inside the listener's
// timeout. Most clients send all of a body before they read a word of the answer, and lose it when
// the connection is closed on them.
const maxWaste = 32 << 20

// readBody reads and validates the body before the handler. The handler gets the valid part of it.
func (s *Server) readBody(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op != nil && op.lines {
			if err := checkMedia(c.Request().Header, op); err != nil {
				return err
			}
		}
		if op == nil || !op.reads() {
			return next(c)
		}
		wrong, _ := c.Get(wrongParameters).([]errs.Field)
		in, err := inputFrom(c, op)
		if err != nil && len(wrong) > 0 {
			return malformedFields(wrong)
		}
		if err != nil {
			return err
		}
		in.malformed = slices.Concat(wrong, in.malformed)
		if op.body == nil && in.bad() { // No handler looks at it.
			return in.refuse(nil)
		}
		r := c.Request()
		r = r.WithContext(context.WithValue(r.Context(), inputKey{}, in))
		r.Body = checkedBody{value: in.value}
		for _, bad := range wrong { // The handler refuses them together with the other errors; the binding before it would report only the first header.
			r.Header.Del(bad.Field)
		}
		c.SetRequest(r)
		return next(c)
	}
}

func inputFrom(c echo.Context, op *operation) (*input, error) {
	r := c.Request()
	if r.ContentLength > maxBody && r.Header.Get("Expect") != "" {
		return nil, tooLarge() // The client waits to hear whether it should send the body at all.
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		_, _ = io.CopyN(io.Discard, r.Body, maxWaste) // Where it fails the client has gone.
		return nil, tooLarge()
	}
	if err != nil {
		return nil, errs.Wrap(err, errs.Malformed, "the body ended before it was complete")
	}
	in, err := parsed(text, r.Header, op)
	if err != nil {
		return nil, err
	}
	in.text, in.sum, in.header = text, sha256.Sum256(text), r.Header
	return in, nil
}

func tooLarge() error {
	return &refusal{
		status: http.StatusRequestEntityTooLarge,
		code:   "body_too_large",
		detail: "the body must be at most 524288 bytes long",
	}
}

// parsed reads the text of a body.
func parsed(text []byte, header http.Header, op *operation) (*input, error) {
	if len(text) == 0 && !op.required {
		return &input{value: map[string]any{}}, nil
	}
	if err := checkMedia(header, op); err != nil {
		return nil, err
	}
	if op.body != nil {
		return readInput(text, op.body)
	}
	return readInput(text, new(openapi3.Schema)) // No member is known: an empty object, for clients that always send one.
}

// checkMedia accepts JSON, or lines of it where the operation takes those, in UTF-8 that is not
// compressed.
func checkMedia(header http.Header, op *operation) error {
	if encoding := header.Values("Content-Encoding"); len(encoding) > 0 && !slices.Equal(encoding, []string{"identity"}) {
		return unsupportedMedia("Content-Encoding", op)
	}
	media, params, err := mime.ParseMediaType(header.Get(echo.HeaderContentType))
	known := media == echo.MIMEApplicationJSON && !op.lines || slices.Contains(op.types, media)
	charset, named := params["charset"]
	if err != nil || !known || named && !strings.EqualFold(charset, "utf-8") || len(header.Values(echo.HeaderContentType)) > 1 {
		return unsupportedMedia(echo.HeaderContentType, op)
	}
	return nil
}

func unsupportedMedia(header string, op *operation) error {
	media := echo.MIMEApplicationJSON
	if op.lines {
		media = lineMedia
	}
	detail := "send the body as Content-Type: " + media + ", in UTF-8 and not compressed"
	return &refusal{
		status: http.StatusUnsupportedMediaType,
		code:   "unsupported_media_type",
		detail: detail,
		fields: []errs.Field{{Field: header, Code: "unsupported_media_type", Message: detail}},
	}
}

// checkedBody hands a value that was checked to the generated code, which binds it by exact names.
type checkedBody struct {
	value map[string]any
}

// ValidatedValue returns the valid part of the body.
func (b checkedBody) ValidatedValue() any { return b.value }

// Read returns the end of the body: it was read.
func (b checkedBody) Read([]byte) (int, error) { return 0, io.EOF }

// Close does nothing.
func (b checkedBody) Close() error { return nil }
