package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// fieldsOf reads a selection of the members of a schema; nil selects all of them.
func fieldsOf(given *string, schema *openapi3.Schema) ([]string, error) {
	if given == nil {
		return nil, nil
	}
	var fields, unknown []string
	for name := range strings.SplitSeq(*given, ",") {
		name = strings.TrimSpace(name)
		if _, known := schema.Properties[name]; !known {
			unknown = append(unknown, strconv.Quote(join("", name)))
		}
		if !slices.Contains(fields, name) {
			fields = append(fields, name)
		}
	}
	if len(unknown) > 0 {
		are := " is no field"
		if len(unknown) > 1 {
			are = " are no fields"
		}
		return nil, badParameter("fields", "invalid_value",
			strings.Join(unknown, ", ")+are+"; choose among "+strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", "))
	}
	return fields, nil
}

// selected is a list of which only some fields are shown. It answers every list.
type selected struct {
	items  any
	next   *string
	fields []string
}

// VisitListEndpointsResponse writes the list.
func (l selected) VisitListEndpointsResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListRunsResponse writes the list.
func (l selected) VisitListRunsResponse(w http.ResponseWriter) error { return l.write(w) }

// VisitListEndpointRunsResponse writes the list.
func (l selected) VisitListEndpointRunsResponse(w http.ResponseWriter) error { return l.write(w) }

func (l selected) write(w http.ResponseWriter) error {
	items, err := l.cut()
	if err != nil {
		return err
	}
	body := map[string]any{"items": items}
	if l.next != nil {
		body["nextCursor"] = *l.next
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("writing a list: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(append(text, '\n'))
	return err
}

// cut returns the items with the selected fields alone; those that an item does not have stay
// absent.
func (l selected) cut() ([]map[string]json.RawMessage, error) {
	raw, err := json.Marshal(l.items)
	if err != nil {
		return nil, fmt.Errorf("writing the items of a list: %w", err)
	}
	var items []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("reading the items of a list: %w", err)
	}
	for _, item := range items {
		maps.DeleteFunc(item, func(name string, _ json.RawMessage) bool { return !slices.Contains(l.fields, name) })
	}
	return items, nil
}
