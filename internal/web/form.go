package web

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"rubato/client"
	"rubato/internal/auth"
	"rubato/internal/contract"
)

// form is the view model of the form of an endpoint. Fields hold the typed values, valid or not, by
// their API names.
type form struct {
	id      string // of the endpoint to edit; empty: a new one
	version int64
	once    string
	fields  map[string]string
	errors  map[string]string // by field
	used    map[string][]int  // the rows of a list that are its members, in their order
	problem string            // error that belongs to no field
	draft   draftView
}

// newForm returns a form with typed values, or with those of an endpoint.
func newForm(fields map[string]string) form {
	return form{
		fields: fields,
		errors: map[string]string{},
		used:   map[string][]int{},
	}
}

func (v *pageRequest) registerForm() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	f := newForm(map[string]string{"baseline": "interval"})
	for _, field := range contract.Fields() {
		f.fields[field.Path] = fieldText(field, field.Initial)
	}
	f.once = rand.Text()
	return v.show(page{title: "New endpoint", nav: "endpoints"}, formPage(f))
}

func (v *pageRequest) editForm() error {
	if !v.who.May(auth.Write) {
		return forbidden()
	}
	var e client.Endpoint
	if err := v.get(endpointAPI(v.r.PathValue("id"), ""), nil, &e); err != nil {
		return err
	}
	if e.State == client.EndpointStateArchived {
		return &client.Problem{
			Status: http.StatusConflict,
			Title:  "Archived",
			Detail: "the endpoint is archived and cannot be changed; register a new one",
		}
	}
	f := newForm(fieldsOf(e))
	f.id, f.version = e.ID, e.Version
	return v.show(page{title: "Edit " + shorten(e.Name, 50), nav: "endpoints"}, formPage(f))
}

// typed returns the fields of the form that was sent.
func (v *pageRequest) typed() form {
	f := newForm(map[string]string{})
	f.id, f.once = v.value("endpoint"), v.value("once")
	f.version, _ = strconv.ParseInt(v.value("version"), 10, 64) // One that cannot be read matches no version.
	for name := range v.r.PostForm {
		f.fields[name] = v.r.PostForm.Get(name)
	}
	return f
}

func (v *pageRequest) create() error {
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

// edit sends the changed fields as a patch. If the endpoint was edited since the form was opened,
// the patch is refused.
func (v *pageRequest) edit() error {
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
	before := newForm(fieldsOf(stored))
	patch := difference(before.document(), document)
	header := http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(f.version, 10))}}
	err := v.call(apiRequest{
		method: http.MethodPatch,
		path:   endpointAPI(f.id, ""),
		body:   patch,
		header: header,
	}, nil)
	if err == nil {
		return v.seeOther("/console/endpoints/" + f.id)
	}
	if problemOf(err).Status != http.StatusPreconditionFailed {
		return v.refuse(f, err)
	}
	if err := v.get(endpointAPI(f.id, ""), nil, &stored); err != nil {
		return err
	}
	f.overtaken(fieldsOf(stored), stored.Version)
	return v.refill(f)
}

// overtaken shows the stored values at the fields that differ from the typed ones, and lets the
// form be sent again with the new version.
func (f *form) overtaken(stored map[string]string, version int64) {
	f.version = version
	f.problem = "The endpoint was changed since you opened it. Stored values that differ from yours are shown at their fields. Save again to overwrite them with yours."
	names := maps.Clone(f.fields)
	maps.Copy(names, stored)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		now := strings.TrimSpace(plainLines(stored[name]))
		if slices.Contains([]string{"once", "endpoint", "version"}, name) || now == strings.TrimSpace(plainLines(f.fields[name])) {
			continue
		}
		if now == "" {
			now = "nothing"
		}
		line := cmp.Or(rowName.FindString(name), name) // The fields of a row have one line for their errors.
		if f.errors[line] != "" {
			now = f.errors[line] + "; " + now
		} else {
			now = "stored now: " + now
		}
		f.errors[line] = shorten(now, 500)
	}
}

var rowName = regexp.MustCompile(`^(rule|redact)[0-9]+`)

// refuse shows the form again, with every error at its field.
func (v *pageRequest) refuse(f form, err error) error {
	if err := f.take(err); err != nil {
		return err
	}
	return v.refill(f)
}

// take keeps the API's validation errors, to be shown at their fields. It returns all other errors.
func (f *form) take(err error) error {
	problem := problemOf(err)
	if problem.Status >= http.StatusInternalServerError {
		return err
	}
	f.blame(problem.Errors)
	if problem.Errors == nil {
		f.problem = sentence(problem.Detail)
	}
	return nil
}

func (v *pageRequest) refill(f form) error {
	f.draft.quiet = true
	if v.fragment() {
		return v.html(http.StatusUnprocessableEntity, formBody(f))
	}
	return v.html(http.StatusUnprocessableEntity, layout(v.frame(page{title: "Endpoint", nav: "endpoints"}), formPage(f)))
}

// blame assigns API errors to their fields; an error without a field is shown above the form.
func (f *form) blame(list *[]client.FieldError) {
	if list == nil {
		return
	}
	var others []string
	for _, e := range *list {
		field := f.fieldFor(e.Field)
		switch {
		case field == "":
			others = append(others, e.Field+" "+e.Message)
		case f.errors[field] != "":
			f.errors[field] += "; " + e.Message
		case field != e.Field && isPairs(field):
			f.errors[field] = e.Field + " " + e.Message
		default:
			f.errors[field] = e.Message
		}
	}
	f.problem = strings.Join(others, "; ")
}

// fieldFor returns the field of the form that a field of the API is written in; empty: none.
func (f *form) fieldFor(path string) string {
	if field, known := contract.Of(path); known && field.Kind != contract.Composite {
		return path
	}
	root, below, _ := strings.Cut(path, ".")
	root, index, _ := strings.Cut(root, "[")
	switch root {
	case "auth", "tls":
		return objectField(root, below)
	case "successRules":
		return f.rowFor("rule", index)
	case "redact":
		return f.rowFor("redact", index)
	}
	if _, known := contract.Of(root); known {
		return root
	}
	return ""
}

// isPairs reports whether a field holds pairs of a name and a value.
func isPairs(path string) bool {
	field, _ := contract.Of(path) // None holds none.
	return field.Kind == contract.Pairs
}

// objectField returns the field for a member of auth or tls, and for one that is about all of it.
func objectField(object, member string) string {
	member, _, _ = strings.Cut(member, "[")
	switch {
	case object == "tls" && member == "":
		return "tlsServerName"
	case member == "":
		return "authType"
	}
	return flat(object, member)
}

// rowFor returns the form row of a list's member. An error of the whole list is shown at its first
// row.
func (f *form) rowFor(list, index string) string {
	i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
	if err != nil || i >= len(f.used[list]) {
		return row(list, 0, "")
	}
	return row(list, f.used[list][i], "")
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

// sorted returns the fields that are wrong, in order.
func sorted(errors map[string]string) []string { return slices.Sorted(maps.Keys(errors)) }

// fieldTitle names a field where its label is not beside it.
func fieldTitle(name string) string {
	if field, known := contract.Of(name); known {
		return field.Title
	}
	return statusWords(name)
}
