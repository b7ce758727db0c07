package web

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"rubato/client"
	"rubato/internal/auth"
)

// form is the page on which an endpoint is written. Fields hold what was typed, right or wrong, by the names of the API.
type form struct {
	id      string // of the endpoint to edit; empty: a new one
	version int64
	once    string
	fields  map[string]string
	errors  map[string]string // by field
	problem string            // what no field is to blame for
	draft   draftView
}

// The fields of the form, by how they are written.
func textFields() []string {
	return []string{"name", "url", "key", "description", "method", "body", "timezone", "catchUp", "success", "planner"}
}

func lengthFields() []string {
	return []string{
		"minIntervalMs", "maxIntervalMs", "jitterMs", "timeoutMs", "maxExecutionTimeMs",
	}
}

func numberFields() []string { return []string{"maxResponseKb", "followRedirects"} }

// deliveryFields are written as JSON, as the API has them.
func deliveryFields() []string {
	return []string{"query", "auth", "tls", "sign", "successRules", "responseTailKb", "redact", "conditional"}
}

func (v *visit) newForm() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	f := form{once: rand.Text(), fields: map[string]string{
		"baseline": "interval", "baselineIntervalMs": "1m", "method": "GET", "timezone": "UTC", "catchUp": "once", "gap": "run", "overlap": "once",
		"success": "2xx", "maxExecutionTimeMs": "1m", "timeoutMs": "30s", "maxResponseKb": "100", "followRedirects": "0", "maxAttempts": "1", "backoffMs": "1s",
		"maxBackoffMs": "1m", "planner": "act",
	}}
	return v.show(page{title: "New endpoint", nav: "endpoints"}, formPage(f))
}

func (v *visit) editForm() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	var e client.Endpoint
	if err := v.get(endpointAPI(v.r.PathValue("id"), ""), nil, &e); err != nil {
		return err
	}
	if e.State == client.EndpointStateArchived {
		return &client.Problem{Status: http.StatusConflict, Title: "Archived", Detail: "the endpoint is archived and cannot be changed; register a new one"}
	}
	f := form{id: e.ID, version: e.Version, fields: fieldsOf(e)}
	return v.show(page{title: "Edit " + shorten(e.Name, 50), nav: "endpoints"}, formPage(f))
}

// typed returns the fields of the form that was sent.
func (v *visit) typed() form {
	f := form{id: v.value("id"), once: v.value("once"), fields: map[string]string{}, errors: map[string]string{}}
	f.version, _ = strconv.ParseInt(v.value("version"), 10, 64) // One that cannot be read matches no version.
	for name := range v.r.PostForm {
		f.fields[name] = v.r.PostForm.Get(name)
	}
	return f
}

func (v *visit) create() error {
	f := v.typed()
	document := f.document()
	if len(f.errors) > 0 {
		return v.refill(f)
	}
	var made client.Endpoint
	if err := v.post("/v1/endpoints", f.once, document, &made); err != nil {
		return v.refuse(f, err)
	}
	return v.seeOther("/console/endpoints/" + made.ID)
}

// edit sends what differs from what the form was filled with, and only where nobody else has edited meanwhile.
func (v *visit) edit() error {
	f := v.typed()
	f.id = v.r.PathValue("id")
	document := f.document()
	if len(f.errors) > 0 {
		return v.refill(f)
	}
	var stored client.Endpoint
	if err := v.get(endpointAPI(f.id, ""), nil, &stored); err != nil {
		return err
	}
	before := form{fields: fieldsOf(stored), errors: map[string]string{}}
	patch := difference(before.document(), document)
	header := http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(f.version, 10))}}
	if err := v.call(ask{method: http.MethodPatch, path: endpointAPI(f.id, ""), body: patch, header: header}, nil); err != nil {
		return v.refuse(f, err)
	}
	return v.seeOther("/console/endpoints/" + f.id)
}

// refuse shows the form again, with every error at its field.
func (v *visit) refuse(f form, err error) error {
	problem := problemOf(err)
	if problem.Status >= http.StatusInternalServerError {
		return err
	}
	f.blame(problem.Errors)
	if problem.Errors == nil {
		f.problem = sentence(problem.Detail)
	}
	return v.refill(f)
}

func (v *visit) refill(f form) error {
	f.draft.quiet = true
	if v.fragment() {
		return v.html(http.StatusUnprocessableEntity, formBody(f))
	}
	return v.html(http.StatusUnprocessableEntity, layout(v.frame(page{title: "Endpoint", nav: "endpoints"}), formPage(f)))
}

// blame sorts errors of the API to the fields that they are about; what no field is about goes above the form.
func (f *form) blame(list *[]client.FieldError) {
	if list == nil {
		return
	}
	if f.errors == nil {
		f.errors = map[string]string{}
	}
	var others []string
	for _, e := range *list {
		field := fieldFor(e.Field)
		switch {
		case field == "":
			others = append(others, e.Field+" "+e.Message)
		case f.errors[field] != "":
			f.errors[field] += "; " + e.Message
		case field != e.Field && (field == "delivery" || field == "headers" || field == "labels"):
			f.errors[field] = e.Field + " " + e.Message
		default:
			f.errors[field] = e.Message
		}
	}
	f.problem = strings.Join(others, "; ")
}

// fieldFor returns the field of the form that a field of the API is written in.
func fieldFor(path string) string {
	root, below, _ := strings.Cut(path, ".")
	root, _, _ = strings.Cut(root, "[")
	switch root {
	case "dst", "retry":
		return below
	case "headers", "labels", "baselineCron", "baselineIntervalMs", "startAt", "idempotent":
		return root
	}
	for _, names := range [][]string{textFields(), lengthFields(), numberFields()} {
		if slices.Contains(names, root) {
			return root
		}
	}
	if slices.Contains(deliveryFields(), root) {
		return "delivery"
	}
	return ""
}

// difference returns the JSON merge patch that makes the one document of the other.
func difference(before, after map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range before {
		if _, kept := after[name]; !kept {
			patch[name] = nil
		}
	}
	for name, value := range after {
		old, known := before[name]
		oldObject, wasObject := old.(map[string]any)
		object, isObject := value.(map[string]any)
		switch {
		case known && wasObject && isObject:
			if inner := difference(oldObject, object); len(inner) > 0 {
				patch[name] = inner
			}
		case !known || !reflect.DeepEqual(old, value):
			patch[name] = value
		}
	}
	return patch
}

// plain returns a value as JSON reads it, so that values of different types compare.
func plain(value any) any {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}
