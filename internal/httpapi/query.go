package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/labstack/echo/v4"

	"rubato/internal/auth"
	"rubato/internal/errs"
)

// wrongParameters is the context key of parameter errors, so that they are reported together with
// body errors.
const wrongParameters = "rubato.parameters"

// checkParameters refuses unknown query parameters, and malformed parameters and headers. It
// reports all errors at once. If the request has a body, they are reported together with the errors
// of the body.
func (s *Server) checkParameters(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		op := s.operation(c)
		if op == nil {
			return next(c)
		}
		given, err := url.ParseQuery(c.Request().URL.RawQuery)
		if err != nil {
			return errs.Wrap(err, errs.Malformed, "the query cannot be read: it must be name=value pairs, percent-encoded, joined by &")
		}
		bad := op.wrongHeaders(c.Request().Header)
		for name, values := range given {
			bad = append(bad, op.parameter(name, values)...)
		}
		for name, schema := range op.numbers {
			if code, message := wrongValue(schema, c.Param(name)); code != "" {
				bad = append(bad, errs.Field{
					Field:   name,
					Code:    code,
					Message: message,
				})
			}
		}
		bad = append(bad, wrongOrder(given)...)
		slices.SortFunc(bad, func(a, b errs.Field) int { return strings.Compare(a.Field, b.Field) }) // A map has no order to keep.
		if op.reads() {
			c.Set(wrongParameters, bad)
			return next(c)
		}
		if err := malformedFields(bad); err != nil {
			return err
		}
		return next(c)
	}
}

// wrongHeaders returns the headers that are parameters and malformed, or are given more than once,
// because the order of duplicates is ambiguous. It also returns If-Match and If-None-Match if a
// change does not support them. They must not be ignored, because the client relies on them to
// prevent a lost update.
func (op *operation) wrongHeaders(header http.Header) (bad []errs.Field) {
	for _, name := range []string{"If-Match", "If-None-Match"} {
		if op.headers[name] == nil && len(header.Values(name)) > 0 && op.changes() {
			bad = append(bad, errs.Field{
				Field:   name,
				Code:    "unknown_parameter",
				Message: "is not a condition that this route knows; leave it out",
			})
		}
	}
	for name, schema := range op.headers {
		values := header.Values(name)
		code, message := "duplicate_parameter", "may be given only once"
		if len(values) == 1 {
			code, message = "invalid_value", wrongHeader(name, values[0], schema)
		}
		if len(values) > 0 && message != "" {
			bad = append(bad, errs.Field{
				Field:   name,
				Code:    code,
				Message: message,
			})
		}
	}
	return bad
}

// entityTag is one strong or weak tag of RFC 9110 section 8.8.3.
var entityTag = regexp.MustCompile(`^(W/)?"[\x21\x23-\x7e\x80-\xff]*"$`)

// changes reports whether the operation may change something.
func (op *operation) changes() bool { return op.method != http.MethodGet && op.scope != auth.Read }

// wrongHeader returns why the value of a header is invalid; empty: it is valid.
func wrongHeader(name, value string, schema *openapi3.Schema) string {
	tag := value == "*" || entityTag.MatchString(value)
	hidden := strings.ContainsFunc(value, func(c rune) bool { return c <= ' ' || c > '~' })
	switch {
	case len(schema.Enum) > 0:
		if !slices.Contains(schema.Enum, any(value)) {
			return "must be " + listed(schema.Enum)
		}
	case name == "If-Match" && !tag:
		return `must be the ETag of the version that the edit is based on, such as "3", or *`
	case name == "If-None-Match" && !tag:
		return `must be *, or the ETag of a version that is not to be replaced, such as "3"`
	case name == idempotencyKey && (value == "" || len(value) > maxIdempotencyKey || hidden):
		return "must be one text of 1 to 255 visible ASCII characters, such as a UUID"
	}
	return ""
}

// parameter returns the errors of a query parameter.
func (op *operation) parameter(name string, values []string) []errs.Field {
	var bad []errs.Field
	complain := func(code, message string) {
		bad = append(bad, errs.Field{
			Field:   join("", name),
			Code:    code,
			Message: message,
		})
	}
	known, ok := op.query[name]
	if !ok {
		complain("unknown_parameter", "is not a parameter of this route"+op.parameters())
		return bad
	}
	schema := known.Schema.Value
	if schema.Type.Is(openapi3.TypeArray) {
		if limit := schema.MaxItems; limit != nil && uint64(len(values)) > *limit {
			complain("too_many", fmt.Sprintf("may be given at most %d times", *limit))
		}
		schema = schema.Items.Value
	} else if len(values) > 1 {
		complain("duplicate_parameter", "may be given only once")
		return bad
	}
	for _, v := range values {
		code, message := wrongValue(schema, v)
		if code == "" {
			code, message = op.wrongForm(name, v)
		}
		if code != "" {
			complain(code, message)
		}
	}
	if len(bad) == 0 && len(values) > 1 { // Each value by itself is valid.
		if code, message := op.wrongForm(name, values...); code != "" {
			complain(code, message)
		}
	}
	return bad
}

// wrongForm returns the errors of values that match their schema but are malformed: the schema does
// not define IDs, labels and cursors. Several values are possible for arrays alone, such as labels.
func (op *operation) wrongForm(name string, values ...string) (code, message string) {
	var err error
	switch name {
	case "endpointId":
		_, err = endpointNamed(&values[0])
	case "actor":
		_, err = keyIDOf(name, values[0])
	case "label":
		_, err = labelsOf(&values)
	case "types":
		_, err = typesOf(values[0])
	case "fields":
		_, err = fieldsOf(&values[0], op.item)
	case "cursor":
		_, err = decodeCursor(values[0])
	}
	if bad := errs.FieldsOf(err); len(bad) > 0 {
		return bad[0].Code, bad[0].Message
	}
	return "", ""
}

// wrongOrder returns the error of a time range that ends before it begins. Malformed instants are
// reported elsewhere.
func wrongOrder(given url.Values) []errs.Field {
	from, fault := parseInstant(given.Get("from"))
	to, other := parseInstant(given.Get("to"))
	if fault != nil || other != nil || from.Before(to) {
		return nil
	}
	return []errs.Field{{Field: "to", Code: "out_of_range", Message: "must be later than from"}}
}

// parameters lists the parameters of a route.
func (op *operation) parameters() string {
	if len(op.query) == 0 {
		return ", which has none"
	}
	names := make([]string, 0, len(op.query))
	for name := range op.query {
		names = append(names, name)
	}
	slices.Sort(names)
	return "; it knows " + strings.Join(names, ", ")
}

// wrongValue returns why a parameter's value is not allowed; an empty code: it is.
func wrongValue(schema *openapi3.Schema, value string) (code, message string) {
	switch {
	case schema.Type.Is(openapi3.TypeInteger):
		return wrongInteger(schema, value)
	case schema.Type.Is(openapi3.TypeBoolean):
		if value != "true" && value != "false" {
			return codeType, "must be true or false"
		}
		return "", ""
	case schema.Format == "date-time":
		return wrongInstant(value)
	default:
		return wrongText(schema, value)
	}
}

func wrongInstant(value string) (code, message string) {
	switch t, err := parseInstant(value); {
	case err != nil:
		return codeTime, "must be an RFC 3339 instant with a zone, such as 2026-11-21T10:00:00Z (percent-encode a plus)"
	case !sane(t):
		return "out_of_range", saneYears
	}
	return "", ""
}

func wrongText(schema *openapi3.Schema, value string) (code, message string) {
	length := uint64(utf8.RuneCountInString(value))
	switch {
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return codeCharacters, "must be UTF-8 without the character U+0000"
	case len(schema.Enum) > 0:
		if !slices.Contains(schema.Enum, any(value)) {
			return "invalid_value", "must be one of " + listed(schema.Enum)
		}
	case value == "" && schema.MinLength > 0:
		return codeRequired, "must not be empty"
	case schema.MaxLength != nil && length > *schema.MaxLength:
		return "too_long", fmt.Sprintf("must be at most %d characters long", *schema.MaxLength)
	}
	return "", ""
}

func wrongInteger(schema *openapi3.Schema, value string) (code, message string) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || value[0] == '+' {
		return codeType, "must be a whole number"
	}
	if float64(n) < *schema.Min || float64(n) > *schema.Max {
		return "out_of_range", fmt.Sprintf("must be %.0f to %.0f", *schema.Min, *schema.Max)
	}
	return "", ""
}

// listed joins the values of an enumeration by commas.
func listed(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ", ")
}
