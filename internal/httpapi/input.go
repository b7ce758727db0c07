package httpapi

import (
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"rubato/internal/errs"
)

// input is a request body as far as it can be read, with everything that is wrong with it so far.
// What cannot be read is left out of value, so that the domain can judge the rest and every bad
// field is named at once.
type input struct {
	value     map[string]any
	malformed []errs.Field     // make it a 400
	missing   []errs.Field     // say it better than the domain, which sees a zero
	unwanted  []errs.Field     // for fields that the domain finds nothing wrong with
	kept      map[string][]int // of the arrays that lack items: where the others were

	text   []byte            // as it came
	sum    [sha256.Size]byte // of the text
	header http.Header
}

// readInput reads a body against its schema. The error is an [errs.Malformed] where it is no JSON
// object.
func readInput(text []byte, schema *openapi3.Schema) (*input, error) {
	doc, err := parseDocument(text)
	if err != nil {
		return nil, err
	}
	var s shape
	value := s.object("", schema, doc.root)
	return &input{
		value:     value,
		malformed: append(s.malformed, doc.repeated...),
		missing:   s.missing,
		unwanted:  s.unwanted,
		kept:      s.kept,
	}, nil
}

// bad reports whether the input is malformed, so that it is refused regardless of the domain's
// validation.
func (in *input) bad() bool { return len(in.malformed)+len(in.missing)+len(in.unwanted) > 0 }

// refuse returns the error that names every bad field: those found here, and those that a check by
// the domain found in the rest. It is nil where there are none. An err that is no complaint about
// fields is returned as it is.
func (in *input) refuse(err error) error {
	if err != nil && errs.CodeOf(err) != errs.Invalid {
		return err
	}
	fields := slices.Concat(in.malformed, in.missing)
	found := slices.Concat(in.placed(errs.FieldsOf(err)), in.unwanted)
	named, bad, short := errs.PathsOf(fields), errs.PathsOf(fields, found), in.short()
	for _, f := range found {
		if named.Cover(f.Field) || short[f.Field] || in.follows(f, bad) {
			continue
		}
		fields = append(fields, f)
		named[f.Field] = true
	}
	if len(in.malformed) > 0 {
		return malformedFields(fields)
	}
	return errs.InvalidFields(fields)
}

// placed returns complaints of the domain about items of arrays under the numbers that they have in
// the request.
func (in *input) placed(found []errs.Field) []errs.Field {
	placed := slices.Clone(found)
	for at, f := range placed {
		array, item, _ := strings.Cut(f.Field, "[")
		number, member, _ := strings.Cut(item, "]")
		i, err := strconv.Atoi(number)
		if places := in.kept[array]; err == nil && i >= 0 && i < len(places) {
			placed[at].Field = array + "[" + strconv.Itoa(places[i]) + "]" + member
		}
	}
	return placed
}

// short returns the arrays that lack items because those are malformed, so that the domain's errors
// about the remaining items are dropped.
func (in *input) short() errs.Paths {
	set := errs.Paths{}
	for _, f := range in.malformed {
		if array, _, item := strings.Cut(f.Field, "["); item {
			set[array] = true
		}
	}
	return set
}

// follows reports whether a complaint only follows from another bad field, which the domain saw the
// default of.
func (in *input) follows(f errs.Field, bad errs.Paths) bool {
	return slices.ContainsFunc(in.causes(f), func(cause string) bool { return cause != f.Field && bad[cause] })
}

// causes returns the invalid fields that make an error about another field redundant.
func (in *input) causes(f errs.Field) []string {
	switch {
	case f.Code == "schedule_required":
		return []string{"baselineCron", "baselineIntervalMs"}
	case f.Code == "backoff_order":
		return []string{"retry", "retry.backoffMs", "retry.maxBackoffMs"}
	case f.Code == "timeout_order" || f.Field == "timeoutMs" && in.value["timeoutMs"] == nil: // The default follows from the other.
		return []string{"maxExecutionTimeMs"}
	case f.Field == "ttlMs" && f.Code == codeRequired: // Each of two can say how long a hint holds, and when it runs.
		return []string{"expiresAt"}
	case f.Field == "at" && f.Code == codeRequired:
		return []string{"inMs"}
	case f.Field == "endsAt" && in.value["startsAt"] == nil: // It is judged by when the window begins.
		return []string{"startsAt"}
	case f.Code == "not_used": // The type of an object decides which of its members it uses.
		return []string{f.Field[:strings.LastIndex(f.Field, ".")+1] + "type"}
	default:
		return nil
	}
}

func malformedFields(fields []errs.Field) error {
	if len(fields) == 0 {
		return nil
	}
	if only := fields[0]; len(fields) == 1 && only.Code == codeCursor {
		return invalidCursor(only.Message)
	}
	return &errs.Error{
		Code:    errs.Malformed,
		Reason:  "malformed_fields",
		Message: "the request cannot be read; see errors",
		Fields:  fields,
	}
}

type inputKey struct{}

// inputOf returns the body of the request that ctx belongs to.
func inputOf(ctx context.Context) *input {
	in, _ := ctx.Value(inputKey{}).(*input) // Every request has one: see readBody.
	return in
}
