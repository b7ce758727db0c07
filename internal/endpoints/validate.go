package endpoints

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-playground/validator/v10"

	"rubato/internal/errs"
	"rubato/internal/placement"
	"rubato/internal/schedule"
	"rubato/internal/tempo"
)

// Targets decides which URLs and headers are allowed. Nil means allowed.
type Targets interface {
	// CheckURL checks a URL by its text. The resolved address is checked again when it is dialled.
	CheckURL(url string) *errs.Field
	// CheckHeader checks one header of a request.
	CheckHeader(name, value string) *errs.Field
}

// Permissions is an optional interface of [Targets]. Without it, permissions are denied to every
// tenant.
type Permissions interface {
	// PermitsSkipVerify reports whether endpoints may disable the verification of certificates.
	PermitsSkipVerify() bool
	// For returns the targets of one tenant, because tenants may have allowances of their own.
	For(tenant [16]byte) Targets
}

// Validator checks specs. It is safe for concurrent use.
type Validator struct {
	fields  *validator.Validate
	targets Targets
}

// NewValidator returns a validator that checks URLs and headers by targets.
func NewValidator(targets Targets) *Validator {
	return &Validator{fields: newFields(), targets: targets}
}

// newFields returns the library's validator for the bounds of single fields.
func newFields() *validator.Validate {
	v := validator.New(validator.WithRequiredStructEnabled())
	v.RegisterTagNameFunc(func(f reflect.StructField) string { return fieldOf(f).name })
	for tag, check := range map[string]func(string) bool{"text": isText, "prose": isProse, "slug": slug.MatchString, "budget": isBudget} {
		must(v.RegisterValidation(tag, func(fl validator.FieldLevel) bool { return check(fl.Field().String()) }))
	}
	must(v.RegisterValidation("maxbytes", func(fl validator.FieldLevel) bool {
		var limit int
		_, err := fmt.Sscan(fl.Param(), &limit)
		return err == nil && fl.Field().Len() <= limit
	}))
	return v
}

var anyFields = sync.OnceValue(newFields)

// CheckLabels returns the faults of labels of an endpoint or a filter, sorted by name.
func CheckLabels(labels map[string]string) []errs.Field {
	bad := complaintsOf(anyFields().StructPartial(Spec{Labels: labels}, "Labels"))
	slices.SortFunc(bad, func(a, b errs.Field) int { return strings.Compare(a.Field, b.Field) }) // Map order is random.
	return bad
}

// For returns the validator for the specs of one tenant.
func (v *Validator) For(tenant [16]byte) *Validator {
	if permissions, ok := v.targets.(Permissions); ok {
		return &Validator{fields: v.fields, targets: permissions.For(tenant)}
	}
	return v
}

// Check returns nil if the spec may be stored for the endpoint id. Otherwise the error is an
// [errs.Invalid] that names every bad field and the right form.
func (v *Validator) Check(id ID, s Spec) error {
	bad := v.single(s)
	named := map[string]bool{}
	for _, f := range bad {
		named[f.Field] = true
	}
	for _, f := range slices.Concat(v.request(s), v.session(s), timing(id, s), answers(s), tags(s), checkStarts(&s)) {
		if !named[f.Field] { // One fault per field is enough.
			bad = append(bad, f)
		}
	}
	return errs.InvalidFields(bad)
}

// single checks the bounds of single fields.
func (v *Validator) single(s Spec) []errs.Field {
	return complaintsOf(v.fields.Struct(s))
}

// complaintsOf converts the library's errors of a struct.
func complaintsOf(err error) []errs.Field {
	if err == nil {
		return nil
	}
	var bad []errs.Field
	//nolint:errorlint,forcetypeassert // The library documents this type for every error of a struct.
	for _, e := range err.(validator.ValidationErrors) {
		bad = append(bad, complaint(e))
	}
	return bad
}

// CheckTagSets returns an [errs.Invalid] if a tenant has more tag sets than [placement.MaxSets].
func CheckTagSets(count int) error {
	if count <= placement.MaxSets {
		return nil
	}
	return errs.InvalidFields([]errs.Field{{
		Field: "requiredTags", Code: "too_many_tag_sets",
		Message: fmt.Sprintf("with preferredTags must be one of at most %d combinations of tags that the endpoints of a tenant have; use a combination of other endpoints", placement.MaxSets),
	}})
}

// tags checks the tags of workers.
func tags(s Spec) []errs.Field {
	return append(checkList("requiredTags", s.RequiredTags, placement.Valid, placement.Form),
		checkList("preferredTags", s.PreferredTags, placement.Valid, placement.Form)...)
}

// checkList checks a list of different texts of a form.
func checkList(field string, list []string, valid func(string) bool, form string) (bad []errs.Field) {
	for i, text := range list {
		f := errs.Field{Field: element(field, i, "")}
		switch {
		case !valid(text):
			f.Code, f.Message = "invalid_value", "must be "+form
		case slices.Contains(list[:i], text):
			f.Code, f.Message = "duplicate", "must be given once only"
		default:
			continue
		}
		bad = append(bad, f)
	}
	return bad
}

// request checks the request: target, query, headers, authentication and body.
func (v *Validator) request(s Spec) []errs.Field {
	shape, bad := ParseRequest(&s)
	broken := map[string]bool{}
	for _, f := range bad {
		broken[f.Field] = true
	}
	more := slices.Concat(v.checkTarget(&s, shape), checkQuery(&s), v.checkAuth(&s), v.headers(s, shape), checkRedirects(&s, shape))
	if s.StartsChain() {
		more = checkChain(&s)
	}
	for _, f := range more {
		if !broken[f.Field] { // An unparsable field gets no further checks.
			bad = append(bad, f)
		}
	}
	if s.Body != "" && s.Method == "HEAD" {
		bad = append(bad, errs.Field{
			Field:   "body",
			Code:    "body_not_allowed",
			Message: "a HEAD request has no body; leave it out or use another method",
		})
	}
	if _, err := ParseSuccess(s.Success); err != nil {
		bad = append(bad, errs.Field{
			Field:   "success",
			Code:    "invalid_value",
			Message: err.Error() + `; write for example "2xx,304"`,
		})
	}
	return bad
}

// headers checks the headers, with a short sample in place of template values.
func (v *Validator) headers(s Spec, shape *RequestTemplate) []errs.Field {
	var bad []errs.Field
	seen := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) { // Sorted, because map order is random.
		value := s.Headers[name]
		if shape != nil && len(value) <= maxHeaderBytes {
			value = sampleOf(shape.headers[name], value)
		}
		if f := v.targets.CheckHeader(name, value); f != nil {
			bad = append(bad, errs.Field{
				Field:   "headers." + name,
				Code:    f.Code,
				Message: f.Message,
			})
		}
		lower := strings.ToLower(name)
		if other, twice := seen[lower]; twice {
			bad = append(bad, errs.Field{
				Field: "headers." + name, Code: "header_duplicate",
				Message: fmt.Sprintf("names the same header as %q; header names ignore case, keep one", other),
			})
		}
		seen[lower] = name
	}
	return bad
}

// timing checks the rules between the fields of the schedule.
func timing(id ID, s Spec) []errs.Field {
	var bad []errs.Field
	switch {
	case !s.Scheduled():
		bad = append(bad, errs.Field{
			Field:   "baselineIntervalMs",
			Code:    "schedule_required",
			Message: "give a baseline: exactly one of baselineCron and baselineIntervalMs",
		})
	case s.BaselineCron != "" && s.BaselineInterval != 0:
		bad = append(bad, errs.Field{
			Field:   "baselineCron",
			Code:    "schedule_ambiguous",
			Message: "give exactly one of baselineCron and baselineIntervalMs; leave the other out, or set it to null to clear it",
		})
	}
	bad = append(bad, cronFields(id, s)...)
	if s.MinInterval > 0 && s.MaxInterval > 0 && s.MinInterval > s.MaxInterval {
		bad = append(bad, errs.Field{
			Field: "minIntervalMs", Code: "clamp_order",
			Message: fmt.Sprintf("must be at most maxIntervalMs (%d)", s.MaxInterval.Milliseconds()),
		})
	}
	if s.DetachesRuns() && s.Budget != "" {
		bad = append(bad, errs.Field{
			Field: "budget", Code: "overlap_allowed",
			Message: "must be left out with overlap allow, because a budget is spent by what one run after the other finds",
		})
	}
	if s.Timeout > s.MaxExecutionTime {
		bad = append(bad, errs.Field{
			Field: "timeoutMs", Code: "timeout_order",
			Message: fmt.Sprintf("must be at most maxExecutionTimeMs (%d)", s.MaxExecutionTime.Milliseconds()),
		})
	}
	if s.Retry.Backoff > s.Retry.MaxBackoff {
		bad = append(bad, errs.Field{
			Field: "retry.backoffMs", Code: "backoff_order",
			Message: fmt.Sprintf("must be at most retry.maxBackoffMs (%d)", s.Retry.MaxBackoff.Milliseconds()),
		})
	}
	return append(bad, span(s)...)
}

// SchedulableForm describes an instant of a schedule, for error messages.
const SchedulableForm = "must lie in the years 2020 to 2198"

// Schedulable reports whether a user may give an instant for a schedule.
func Schedulable(at time.Time) bool { return at.Year() >= 2020 && at.Year() < 2199 }

// span checks start and end of the schedule.
func span(s Spec) (bad []errs.Field) {
	for name, at := range map[string]time.Time{"startAt": s.StartAt, "endAt": s.EndAt} {
		if !at.IsZero() && !Schedulable(at) {
			bad = append(bad, errs.Field{
				Field:   name,
				Code:    "out_of_range",
				Message: SchedulableForm,
			})
		}
	}
	if !s.EndAt.IsZero() && !s.EndAt.After(s.StartAt) {
		bad = append(bad, errs.Field{
			Field: "endAt", Code: "end_order",
			Message: "must be after startAt (" + s.StartAt.Format(time.RFC3339Nano) + ")",
		})
	}
	return bad
}

// cronFields checks expression and zone. The zone is also checked for an interval, so that a typing
// error does not surface only when a cron is added later.
func cronFields(id ID, s Spec) []errs.Field {
	if s.BaselineCron == "" {
		return errs.FieldsOf(schedule.CheckClock(s.cron(id)))
	}
	return errs.FieldsOf(schedule.Check(s.cron(id)))
}

// complaint converts one violated bound to an error code and the right form.
func complaint(e validator.FieldError) errs.Field {
	path := pathOf(e)
	f := errs.Field{Field: path}
	switch e.Tag() {
	case "required":
		f.Code, f.Message = "required", "must not be empty"
	case "oneof":
		f.Code, f.Message = "invalid_value", "must be one of "+strings.ReplaceAll(e.Param(), " ", ", ")
		if path == "method" {
			f.Code = "method_invalid"
		}
	case "text", "prose":
		f.Code, f.Message = "invalid_characters", unreadable
		if s, ok := e.Value().(string); ok && strings.TrimSpace(s) == "" {
			f.Code = "required"
		}
	case "slug":
		f.Code, f.Message = "invalid_characters", "must hold only a-z, 0-9, dot, dash and underscore, and begin with a letter or digit"
	case "http_url":
		f.Code, f.Message = "url_invalid", "must be an http or https URL, such as https://wiki.example.com/shop"
	case "budget":
		f.Code, f.Message = "invalid_value", "must be "+tempo.BudgetForm
	case "maxbytes":
		f.Code, f.Message = "too_long", "must be at most "+e.Param()+" bytes long"
	default: // min and max
		f.Code, f.Message = bound(e)
	}
	return f
}

// pathOf returns the JSON path of a bad field. Map keys follow a dot like other names.
func pathOf(e validator.FieldError) string {
	_, path, _ := strings.Cut(e.Namespace(), ".") // drops the type's name
	if name, key, found := strings.Cut(path, "["); found {
		return name + "." + strings.TrimSuffix(key, "]")
	}
	return path
}

// bound describes a violated min or max by the kind of the field.
func bound(e validator.FieldError) (code, message string) {
	word := "at least "
	if e.Tag() == "max" {
		word = "at most "
	}
	switch {
	case e.Type() == reflect.TypeFor[time.Duration]():
		limit, err := time.ParseDuration(e.Param())
		must(err)
		return "out_of_range", fmt.Sprintf("must be %s%d (milliseconds)", word, limit.Milliseconds())
	case e.Kind() == reflect.Map || e.Kind() == reflect.Slice:
		return "too_many", "must have " + word + e.Param() + " entries"
	case e.Kind() == reflect.String && e.Tag() == "max":
		return "too_long", "must be " + word + e.Param() + " characters long"
	case e.Kind() == reflect.String:
		return "required", "must not be empty"
	default:
		return "out_of_range", "must be " + word + e.Param()
	}
}

// unreadable describes the right form of a text field.
const unreadable = "must hold readable text: valid UTF-8, something that can be seen, no control characters and none that turn the direction of text"

var slug = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// isText reports whether s is one line of readable text, with a visible character unless it is
// empty. Invisible characters are refused, because those that change the direction of text let one
// name look like another. Exceptions are the spaces of other scripts, and the joiners of Persian
// and Indic scripts and of emoji.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) && (s == "" || strings.ContainsFunc(s, visible))
}

// hidden reports whether r is not allowed in a line of text.
func hidden(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) && r != nonJoiner && r != joiner
}

// visible reports whether r is visible by itself.
func visible(r rune) bool { return unicode.IsPrint(r) && !unicode.IsMark(r) && r != ' ' }

// isProse reports whether s is readable text of any number of lines. The marks and isolates of
// right-to-left scripts are allowed. Embeddings and overrides of direction are refused.
func isProse(s string) bool {
	const firstEmbedding, lastOverride = '\u202a', '\u202e'
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		control := unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t'
		return control || r >= firstEmbedding && r <= lastOverride
	})
}

// must panics on an error that only a bug in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
