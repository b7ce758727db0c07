package template

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
)

// Render returns the text with the values of a run, of at most limit bytes. The error is an
// [*Error] with the place of the failed action. It contains no value.
func (t *Template) Render(v *Values, limit int) (string, error) {
	var out strings.Builder
	out.Grow(min(limit, t.size+64*len(t.parts)))
	for _, p := range t.parts {
		if out.WriteString(p.literal); p.action == nil {
			break
		}
		written, err := t.written(p, v)
		if err != nil {
			return "", p.action.fail(err)
		}
		if out.Len()+len(written) > limit {
			return "", p.action.fail(fmt.Errorf("makes the text longer than %d bytes", limit))
		}
		out.WriteString(written)
	}
	if out.Len() > limit {
		return "", fmt.Errorf("the text is longer than %d bytes", limit)
	}
	if t.guarded && traverses(out.String()) {
		return "", errors.New("a value makes a part of the path . or .., which servers take for another path")
	}
	return out.String(), nil
}

// fail returns an error with the place and the name of its value, unless the error names the value
// itself.
func (a *action) fail(err error) *Error {
	message := a.name + " " + err.Error()
	if own, is := errors.AsType[*vaultError](err); is {
		message = own.Error()
	}
	return &Error{
		Line:    a.at.line,
		Column:  a.at.column,
		Message: message,
		Err:     err,
	}
}

// vaultError is an error of [Secrets], which names the secret.
type vaultError struct{ err error }

func (e *vaultError) Error() string { return e.err.Error() }
func (e *vaultError) Unwrap() error { return e.err }

// written returns the text that replaces an action.
func (t *Template) written(p part, v *Values) (string, error) {
	got, err := p.action.evaluate(v)
	if err != nil {
		return "", err
	}
	if p.action.secret != "" && len(p.action.filters) > 0 {
		v.made = append(v.made, got.text)
	}
	switch t.field {
	case URL, Form:
		if got.kind == encoded {
			return got.text, nil
		}
		return percentEncode(got.String()), nil
	case JSON:
		if p.within != inString {
			return jsonDocument(got)
		}
		s, err := jsonString(got.String())
		return strings.TrimSuffix(strings.TrimPrefix(s, `"`), `"`), err
	case XML:
		var escaped bytes.Buffer
		err := xml.EscapeText(&escaped, []byte(got.String()))
		return escaped.String(), err
	case Header:
		s := got.String()
		if strings.ContainsFunc(s, isControl) {
			return "", errors.New("holds a line break or a control character, which no header may")
		}
		return s, nil
	case Text:
	}
	return got.String(), nil
}

// evaluate returns the value of an action after its filters.
func (a *action) evaluate(v *Values) (value, error) {
	got, err := a.value(v)
	for i := 0; err == nil; i++ {
		if len(got.text) > maxValue {
			return value{}, fmt.Errorf("is longer than %d bytes", maxValue)
		}
		if i == len(a.filters) {
			return got, nil
		}
		got, err = a.filters[i].apply(got)
	}
	return value{}, err
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// percentEncode escapes all bytes except the unreserved characters of RFC 3986.
func percentEncode(s string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; unreserved(c) {
			out.WriteByte(c)
		} else {
			out.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return out.String()
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// traverses reports whether the path of a URL contains a "." or ".." segment.
func traverses(url string) bool {
	_, path, _ := strings.Cut(url, "://")
	if at := strings.IndexAny(path, "?#"); at >= 0 {
		path = path[:at]
	}
	for part := range strings.SplitSeq(path, "/") {
		switch strings.ReplaceAll(strings.ToLower(part), "%2e", ".") {
		case ".", "..":
			return true
		}
	}
	return false
}
