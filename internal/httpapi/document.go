package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"rubato/internal/errs"
)

// maxDepth bounds the nesting of a body. The contract needs four levels.
const maxDepth = 64

// byteOrderMark is what some editors write before a text in UTF-8, and JSON does not allow.
const byteOrderMark = "\xef\xbb\xbf"

// object is a JSON object with its members in the order of the input, so that errors are listed in
// that order too.
type object struct {
	names  []string
	values map[string]any // nil, bool, string, json.Number, []any or *object
}

// document is a parsed body.
type document struct {
	root     *object
	repeated []errs.Field // members that appear twice in their object
}

// parseDocument reads exactly one JSON object. The error is an [errs.Malformed] that says where the
// text goes wrong.
func parseDocument(text []byte) (*document, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, invalidJSON("the body is empty; send a JSON object")
	}
	if bytes.HasPrefix(text, []byte(byteOrderMark)) {
		return nil, invalidJSON(position(text, 0) + ": the text begins with a byte order mark; send UTF-8 without one")
	}
	if at := invalidUTF8(text); at >= 0 {
		return nil, invalidJSON(position(text, at) + ": the text is not valid UTF-8")
	}
	if err := syntax(text); err != nil {
		return nil, err
	}
	if at := loneSurrogate(text); at >= 0 {
		return nil, invalidJSON(position(text, at) + ": the escape is one half of a surrogate pair, which is no character; send the other half with it")
	}
	p := &parser{text: text, tokens: json.NewDecoder(bytes.NewReader(text))}
	p.tokens.UseNumber()
	value, err := p.value("", 0)
	if err != nil {
		return nil, err
	}
	root, ok := value.(*object)
	if !ok {
		return nil, invalidJSON("the body must be a JSON object, not " + kindOf(value))
	}
	return &document{root: root, repeated: p.repeated}, nil
}

// syntax checks that text is one JSON value and nothing else.
func syntax(text []byte) error {
	whole := json.NewDecoder(bytes.NewReader(text))
	var value json.RawMessage
	err := whole.Decode(&value)
	if bad, ok := errors.AsType[*json.SyntaxError](err); ok {
		return invalidJSON(position(text, int(bad.Offset)-1) + ": " + bad.Error())
	}
	if err != nil {
		return invalidJSON(position(text, len(text)) + ": the JSON ends too early")
	}
	rest := text[whole.InputOffset():]
	if after := bytes.TrimLeft(rest, " \t\r\n"); len(after) > 0 {
		return invalidJSON(position(text, len(text)-len(after)) + ": there is more after the JSON object; send exactly one")
	}
	return nil
}

// parser builds the tree of a text that is known to be well-formed.
type parser struct {
	text     []byte
	tokens   *json.Decoder
	repeated []errs.Field
}

func (p *parser) value(path string, depth int) (any, error) {
	token, err := p.tokens.Token()
	if err != nil {
		return nil, invalidJSON(position(p.text, int(p.tokens.InputOffset())) + ": " + err.Error())
	}
	open, nested := token.(json.Delim)
	if !nested {
		return token, nil
	}
	if depth >= maxDepth {
		return nil, invalidJSON(fmt.Sprintf("%s: nested deeper than %d levels", position(p.text, int(p.tokens.InputOffset())), maxDepth))
	}
	if open == '[' {
		return p.array(path, depth)
	}
	return p.object(path, depth)
}

func (p *parser) object(path string, depth int) (any, error) {
	o := &object{values: map[string]any{}}
	for p.tokens.More() {
		token, err := p.tokens.Token()
		if err != nil {
			return nil, invalidJSON(err.Error())
		}
		name, _ := token.(string) // The syntax was checked: only strings are names.
		at := join(path, name)
		if _, twice := o.values[name]; twice {
			p.repeat(at)
		} else {
			o.names = append(o.names, name)
		}
		if o.values[name], err = p.value(at, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := p.tokens.Token() // The closing brace.
	return o, err
}

// repeat complains about a member that its object has already. It looks for the position only as
// long as the answer will show it.
func (p *parser) repeat(path string) {
	message := "appears twice; keep one"
	if len(p.repeated) < maxFields {
		message = "appears twice, the second time at " + position(p.text, int(p.tokens.InputOffset())) + "; keep one"
	}
	p.repeated = append(p.repeated, errs.Field{
		Field:   path,
		Code:    "duplicate_field",
		Message: message,
	})
}

func (p *parser) array(path string, depth int) (any, error) {
	items := []any{}
	for p.tokens.More() {
		item, err := p.value(path+"["+strconv.Itoa(len(items))+"]", depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := p.tokens.Token() // The closing bracket.
	return items, err
}

// maxName bounds, in bytes, the length of a member name in an error path.
const maxName = 100

// join returns the path of a member.
func join(path, name string) string {
	if len(name) > maxName {
		cut := maxName
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "..."
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

// position returns the line and column, counted from 1 in characters, of a byte of text. Of a text
// of one line it is the column alone: a line of an import has another number than 1 in its file.
func position(text []byte, offset int) string {
	before := text[:min(max(offset, 0), len(text))]
	if !bytes.Contains(text, []byte{'\n'}) {
		return fmt.Sprintf("column %d", utf8.RuneCount(before)+1)
	}
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	at := 0
	for {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			return at
		}
		at += size
	}
}

// loneSurrogate returns the offset of the first escape that stands for half a character, or -1.
// Decoders put another character in its place, which the client did not send. The text is known to
// be well-formed, so a backslash begins an escape wherever it stands.
func loneSurrogate(text []byte) int {
	for at := bytes.IndexByte(text, '\\'); at >= 0 && at < len(text); {
		half := surrogate(text[at:])
		switch {
		case half == 0:
			at += 2
		case half < lowSurrogates && surrogate(text[at+6:]) >= lowSurrogates:
			at += 12
		default:
			return at
		}
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return -1
		}
		at += next
	}
	return -1
}

// lowSurrogates is where the second halves of surrogate pairs begin.
const lowSurrogates = 0xDC00

// surrogate returns the half of a surrogate pair that text begins with an escape of, 0 where it
// begins with anything else.
func surrogate(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	r, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil || !utf16.IsSurrogate(rune(r)) {
		return 0
	}
	return rune(r)
}

func invalidJSON(message string) error { return errs.New(errs.Malformed, "invalid_json", message) }
