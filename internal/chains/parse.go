package chains

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/jsonpath"
	"rubato/internal/success"
	"rubato/internal/template"
)

var nameForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,62}$`)

// The error codes of chains.
const (
	codeName         = "invalid_name"
	codeTaken        = "duplicate_name"
	codeCycle        = "cycle"
	codeUnknownStep  = "unknown_step"
	codeUnknownValue = "unknown_value"
	codeRequired     = "required"
)

const nameRule = "must be a letter, then up to 62 letters, digits or underscores"

// Parse validates a definition. The error is an [errs.Invalid] that names every bad field.
func Parse(d Definition) (*Plan, error) {
	p := &parser{plan: &Plan{Definition: d, outputs: map[string][]string{}}}
	p.head()
	p.inputs()
	p.names()
	p.order()
	if len(p.bad) == 0 { // Templates need the names and the order of the steps.
		for i := range p.plan.Steps {
			p.step(i)
		}
		p.outputs()
	}
	if len(p.bad) > 0 {
		return nil, errs.InvalidFields(p.bad)
	}
	return p.plan, nil
}

// parser validates one definition and collects its faults.
type parser struct {
	plan *Plan
	bad  []errs.Field
	// before holds the steps that end before a step, by its name.
	before map[string]map[string]bool
}

func (p *parser) refuse(field, code, message string, args ...any) {
	p.bad = append(p.bad, errs.Field{
		Field:   field,
		Code:    code,
		Message: fmt.Sprintf(message, args...),
	})
}

func (p *parser) head() {
	d := &p.plan.Definition
	if !ValidName(d.Name) {
		p.refuse("name", codeName, "must be 1 to 100 letters, digits, dots, underscores or hyphens, and begin with a letter or digit")
	}
	if utf8.RuneCountInString(d.Description) > 2000 {
		p.refuse("description", "too_long", "must hold at most 2000 characters")
	}
	if !slices.Contains([]OnFailure{"", Stop, Continue, Compensate}, d.OnFailure) {
		p.refuse("onFailure", "invalid_value", "must be stop, continue or compensate")
	}
	if d.TimeoutMs < 0 || d.Timeout() > MaxTimeout || d.Timeout() < 0 {
		p.refuse("timeoutMs", "out_of_range", "must be 1 to 31622400000 (366 days), or 0 for no bound")
	}
	if n := len(d.Steps); n < 1 || n > MaxSteps {
		p.refuse("steps", "out_of_range", "must hold 1 to %d steps", MaxSteps)
	}
}

// ValidName reports whether a text is the name of a chain.
func ValidName(name string) bool { return endpoints.IsChainName(name) }

func (p *parser) inputs() {
	inputs := p.plan.Inputs
	p.checkNames("inputs", names(inputs))
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		in := inputs[name]
		if in.Required && in.Default != nil {
			p.refuse("inputs."+name+".default", "ambiguous", "must be left out where required is true")
		}
		if len(in.Default) > MaxInput || in.Default != nil && !json.Valid(in.Default) {
			p.refuse("inputs."+name+".default", "invalid_value", "must be JSON of at most %d bytes", MaxInput)
		}
	}
}

// checkNames checks the names of values.
func (p *parser) checkNames(field string, list []string) {
	if len(list) > maxNames {
		p.refuse(field, "too_many", "must hold at most %d names", maxNames)
	}
	slices.Sort(list)
	for _, name := range list {
		if !nameForm.MatchString(name) {
			p.refuse(field+"."+name, codeName, nameRule)
		}
	}
}

// names checks the names of the steps, and that every step after which another comes exists.
func (p *parser) names() {
	seen := map[string]bool{}
	for i, s := range p.plan.Steps {
		field := fmt.Sprintf("steps.%d", i)
		switch {
		case !nameForm.MatchString(s.Name):
			p.refuse(field+".name", codeName, nameRule)
		case seen[s.Name]:
			p.refuse(field+".name", codeTaken, "must differ from the names of the other steps")
		}
		seen[s.Name] = true
	}
	for i, s := range p.plan.Steps {
		for j, name := range s.After {
			if !seen[name] {
				p.refuse(fmt.Sprintf("steps.%d.after.%d", i, j), codeUnknownStep, "must be the name of a step; there is no step %q", name)
			}
		}
	}
}

// order sorts the steps so that each comes after those that it depends on. It refuses cycles.
func (p *parser) order() {
	if len(p.bad) > 0 {
		return
	}
	p.before = map[string]map[string]bool{}
	d := &p.plan.Definition
	for len(p.before) < len(d.Steps) {
		placed := len(p.before)
		for i := range d.Steps {
			s := &d.Steps[i]
			if p.before[s.Name] != nil || slices.ContainsFunc(s.After, func(name string) bool { return p.before[name] == nil }) {
				continue
			}
			before := map[string]bool{}
			for _, name := range s.After {
				before[name] = true
				maps.Copy(before, p.before[name])
			}
			p.before[s.Name] = before
			p.plan.steps = append(p.plan.steps, &step{StepSpec: s, before: before})
		}
		if len(p.before) == placed {
			p.refuse("steps", codeCycle, "must not depend on each other in a circle: %s", strings.Join(p.cycle(), " after "))
			return
		}
	}
}

// cycle returns the names of a circle of steps, with the first one at the end again.
func (p *parser) cycle() []string {
	d := &p.plan.Definition
	var path []string
	at := d.Steps[slices.IndexFunc(d.Steps, func(s StepSpec) bool { return p.before[s.Name] == nil })].Name
	for !slices.Contains(path, at) {
		path = append(path, at)
		after := d.step(at).After
		at = after[slices.IndexFunc(after, func(name string) bool { return p.before[name] == nil })]
	}
	return append(path[slices.Index(path, at):], at)
}

// known returns the names that the templates of a step may use.
func (p *parser) known(s *StepSpec) *template.Names {
	known := &template.Names{
		Input: names(p.plan.Inputs),
		Steps: map[string][]string{},
		Item:  s.ForEach != "",
	}
	for name := range p.before[s.Name] {
		known.Steps[name] = names(p.plan.Definition.step(name).Outputs)
	}
	return known
}

// step parses the step at an index.
func (p *parser) step(i int) {
	spec := &p.plan.Steps[i]
	field, parsed, known := fmt.Sprintf("steps.%d", i), p.plan.step(spec.Name), p.known(spec)
	p.checkNames(field+".outputs", names(spec.Outputs))
	parsed.outputs = map[string]*jsonpath.Path{}
	for _, name := range slices.Sorted(maps.Keys(spec.Outputs)) {
		path, err := jsonpath.Parse(spec.Outputs[name])
		if err != nil {
			p.refuse(field+".outputs."+name, "jsonpath_invalid", "%s", err.Error())
		}
		parsed.outputs[name] = path
	}
	if spec.When != "" {
		when, problems := success.CompileCondition(spec.When)
		for _, problem := range problems {
			p.refuse(field+".when", problem.Code, "%s", problem.Message)
		}
		parsed.when = when
	}
	p.forEach(field, parsed, known)
	parsed.endpoint, parsed.request = p.request(field, asked{spec.EndpointID, spec.Request, 1}, known)
	if c := spec.Compensation; c != nil {
		own := *known
		own.Output = append([]string{}, names(spec.Outputs)...)
		parsed.compensation = &compensation{}
		parsed.compensation.endpoint, parsed.compensation.request = p.request(field+".compensation", asked{c.EndpointID, c.Request, endpoints.UndoAttempts}, &own)
	}
}

// forEach parses the list of a step.
func (p *parser) forEach(field string, s *step, known *template.Names) {
	if s.ForEach == "" {
		if s.Parallel != 0 {
			p.refuse(field+".parallel", "ambiguous", "must be left out without forEach")
		}
		return
	}
	if s.Parallel < 0 || s.Parallel > MaxParallel {
		p.refuse(field+".parallel", "out_of_range", "must be 1 to %d", MaxParallel)
	}
	outer := *known
	outer.Item = false
	s.forEach = p.path(field+".forEach", s.ForEach, &outer)
}

// path parses the path of a value of the chain.
func (p *parser) path(field, text string, known *template.Names) []string {
	path := strings.Split(text, ".")
	if why := known.Check(path); why != "" {
		p.refuse(field, codeUnknownValue, "must be the path of a value of the chain: %s", why)
	}
	return path
}

// asked is the endpoint and the request of a step or a compensation.
type asked struct {
	endpointID string
	request    *Request
	// attempts is the default number of attempts of a call.
	attempts int
}

// request parses the request of a step or a compensation.
func (p *parser) request(field string, a asked, known *template.Names) (endpoints.ID, *requestTemplate) {
	id, err := endpoints.ParseID(a.endpointID)
	if a.request.isCall() {
		p.call(field+".request", a.request)
	}
	switch {
	case a.request.isCall() && a.endpointID != "":
		p.refuse(field+".endpointId", "ambiguous", "must be left out where request.url is given: the step sends its own request")
	case a.request.isCall():
	case err != nil:
		p.refuse(field+".endpointId", "invalid_value", "must be the ID of an endpoint, such as ep_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90; or give request.url")
	case a.request.hasCallFields():
		p.refuse(field+".request.url", codeRequired, "must be given with method, timeoutMs, maxAttempts and idempotent: those of an endpoint are its own")
	}
	parsed, bad := parseRequest(field+".request", a.request, known)
	parsed.attempts = a.attempts
	p.bad = append(p.bad, bad...)
	return id, parsed
}

// literalHost matches a URL whose scheme and host hold no template.
var literalHost = regexp.MustCompile(`^https?://[^/?#{}\s@]+([/?#]|$)`)

// call checks the fields of a call that do not depend on values. The rest is checked when it is
// sent, because only the values of a run complete it.
func (p *parser) call(field string, r *Request) {
	if !literalHost.MatchString(r.URL) || len(r.URL) > maxURLBytes {
		p.refuse(field+".url", "invalid_value", "must be an http or https URL of at most 2048 characters; templates may stand in its path and query only")
	}
	if r.Method != "" && !slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, r.Method) {
		p.refuse(field+".method", "invalid_value", "must be GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
	}
	if r.TimeoutMs < 0 || r.TimeoutMs > maxTimeoutMs {
		p.refuse(field+".timeoutMs", "out_of_range", "must be 1 to %d", maxTimeoutMs)
	}
	if r.MaxAttempts < 0 || r.MaxAttempts > maxAttempts {
		p.refuse(field+".maxAttempts", "out_of_range", "must be 1 to %d", maxAttempts)
	}
}

// Bounds of a call. They equal those of endpoints.
const (
	maxTimeoutMs = 1_800_000
	maxAttempts  = 10
)

// hasCallFields reports whether a field is given that belongs to a call.
func (r *Request) hasCallFields() bool {
	return r != nil && (r.Method != "" || r.TimeoutMs != 0 || r.MaxAttempts != 0 || r.Idempotent)
}

// outputs parses the values of the chain.
func (p *parser) outputs() {
	d := &p.plan.Definition
	p.checkNames("outputs", names(d.Outputs))
	all := &template.Names{Input: names(d.Inputs), Steps: map[string][]string{}}
	for i := range d.Steps {
		all.Steps[d.Steps[i].Name] = names(d.Steps[i].Outputs)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Outputs)) {
		p.plan.outputs[name] = p.path("outputs."+name, d.Outputs[name], all)
	}
}
