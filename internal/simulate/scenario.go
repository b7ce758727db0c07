package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/errs"
)

// begin is the instant at which the simulation of a scenario begins: midnight of a Monday.
var begin = time.Date(2026, time.November, 23, 0, 0, 0, 0, time.UTC)

// Scenario is a set of endpoints with their targets and the policies to compare.
type Scenario struct {
	Endpoints []Endpoint
	Budgets   []Budget
}

// Endpoint is an endpoint of a scenario.
type Endpoint struct {
	// Name is that of its rows in the report: the key, or the name without one.
	Name     string
	Process  Process
	Target   Target
	Policies []Policy
}

// Policy is a way to choose when an endpoint runs.
type Policy struct {
	Name string
	// Spec is the endpoint under the policy.
	Spec endpoints.Spec
	// Fixed means that the endpoint runs at its baseline interval whatever comes, without the
	// governor.
	Fixed bool
}

// Reader reads scenarios.
type Reader struct {
	// Check reads and validates the document of an endpoint as the API does. Its error is an
	// [errs.Error] with fields.
	Check func(document map[string]any) (endpoints.Spec, error)
	// Open reads a file that the scenario names.
	Open func(name string) ([]byte, error)
}

// Limits of a scenario.
const maxEndpoints = 10_000

// Read reads a scenario from a JSON object. The error is an [errs.Invalid] that names every bad
// field.
func (r Reader) Read(document map[string]any) (Scenario, error) {
	var f faults
	root, _ := newObject(&f, "", document)
	list := root.items("endpoints")
	if len(list) == 0 || len(list) > maxEndpoints {
		f.add("endpoints", codeRequired, fmt.Sprintf("must list 1 to %d endpoints as in a file of rubato endpoints apply, each with a process", maxEndpoints))
	}
	policies, given := root.member("policies")
	var s Scenario
	for i, value := range root.items("budgets") {
		if o, ok := newObject(&f, item("budgets", i), value); ok {
			s.Budgets = append(s.Budgets, readBudget(o))
		}
	}
	root.end()
	seen := map[string]bool{}
	for i, value := range list {
		o, ok := newObject(&f, item("endpoints", i), value)
		if !ok {
			continue
		}
		if _, own := o.members["policies"]; !own && given {
			o.members = maps.Clone(o.members)
			o.members["policies"] = policies
		}
		e := r.endpoint(o)
		if seen[e.Name] {
			f.add(o.at("key"), codeValue, fmt.Sprintf("must be unique, because it names the rows; %q is used before", e.Name))
		}
		seen[e.Name] = true
		s.Endpoints = append(s.Endpoints, e)
	}
	return s, errs.InvalidFields(f.list)
}

// endpoint reads an endpoint.
func (r Reader) endpoint(o *object) Endpoint {
	var e Endpoint
	if value, given := o.require("process", "how the target changes, such as {kind: poisson, rate: 0.03}"); given {
		if p, ok := newObject(o.faults, o.at("process"), value); ok {
			e.Process, e.Target = readProcess(p, r.Open), readTarget(p)
			p.end()
		}
	}
	list := o.items("policies")
	document := maps.Clone(o.members)
	delete(document, "process")
	delete(document, "policies")
	r.policies(o, &e, list, document)
	return e
}

// policies reads the policies of an endpoint. Without one, the endpoint is simulated as it is.
func (r Reader) policies(o *object, e *Endpoint, list []any, document map[string]any) {
	spec, ok := r.check(o, "", document)
	if e.Name = spec.Key; e.Name == "" {
		e.Name = spec.Name
	}
	if !ok {
		return
	}
	names := map[string]bool{}
	for i, value := range list {
		p, _ := r.policy(o, item(o.at("policies"), i), value, document)
		if names[p.Name] && p.Name != "" {
			o.add(item(o.at("policies"), i), codeValue, fmt.Sprintf("must have a name of its own; %q is used before", p.Name))
		}
		names[p.Name] = true
		e.Policies = append(e.Policies, p)
	}
	if len(list) == 0 {
		e.Policies = []Policy{{Name: string(spec.Planner), Spec: spec}}
	}
}

// check reads the document of an endpoint, and adds its faults under a prefix within the endpoint.
func (r Reader) check(o *object, prefix string, document map[string]any) (endpoints.Spec, bool) {
	document = maps.Clone(document)
	if document["url"] == nil {
		document["url"] = "https://example.com/" // Nothing is sent.
	}
	if document["name"] == nil && document["key"] != nil {
		document["name"] = document["key"]
	}
	spec, err := r.Check(document)
	if err == nil {
		return spec, true
	}
	fields := errs.FieldsOf(err)
	for _, f := range fields {
		o.add(o.at(prefix+f.Field), f.Code, f.Message)
	}
	if len(fields) == 0 {
		o.add(o.path, codeValue, err.Error())
	}
	return spec, false
}

// fixedPolicy names the policy of a fixed interval.
const fixedPolicy = "fixed"

// policyNames are the policies without fields, for messages.
var policyNames = []string{
	fixedPolicy, string(endpoints.PlannerOff), string(endpoints.PlannerObserve), string(endpoints.PlannerSuggest), string(endpoints.PlannerAct),
}

// Named returns the policy of an endpoint by a name; false if there is no such name, or if a cron
// has no interval that could be fixed.
func Named(name string, spec endpoints.Spec) (Policy, bool) {
	if !slices.Contains(policyNames, name) || name == fixedPolicy && spec.BaselineInterval == 0 {
		return Policy{}, false
	}
	spec.Planner = authorityOf(name)
	return Policy{
		Name:  name,
		Spec:  spec,
		Fixed: name == fixedPolicy,
	}, true
}

// policy reads a policy: a name, or an object with a name and fields of the endpoint.
func (r Reader) policy(o *object, path string, value any, document map[string]any) (Policy, bool) {
	document = maps.Clone(document)
	name, short := value.(string)
	if !short {
		p, ok := newObject(o.faults, path, value)
		if !ok {
			return Policy{}, false
		}
		if name = p.text("name"); name == "" {
			o.add(p.at("name"), codeRequired, "must be given: it names the rows of the policy")
		}
		for field, value := range p.members {
			if field != "name" {
				document[field] = value
			}
		}
		spec, ok := r.check(&object{faults: o.faults, path: path}, "", document)
		return Policy{Name: name, Spec: spec}, ok
	}
	if !slices.Contains(policyNames, name) {
		o.add(path, codeValue, "must be one of "+strings.Join(policyNames, ", ")+", or an object with a name and fields of the endpoint")
		return Policy{}, false
	}
	document["planner"] = string(authorityOf(name))
	spec, ok := r.check(o, "", document)
	if !ok {
		return Policy{Name: name}, false
	}
	policy, possible := Named(name, spec)
	if !possible {
		o.add(path, codeValue, "needs baselineIntervalMs, because a cron has no interval")
		policy.Name = name
	}
	return policy, possible
}

// authorityOf returns the planner's authority under a named policy.
func authorityOf(name string) endpoints.Authority {
	if name == fixedPolicy {
		return endpoints.PlannerOff
	}
	return endpoints.Authority(name)
}
