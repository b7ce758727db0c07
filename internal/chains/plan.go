package chains

import (
	"rubato/internal/endpoints"
	"rubato/internal/jsonpath"
	"rubato/internal/success"
)

// Plan is a validated definition with its parsed templates, conditions and paths. It is immutable
// and safe for concurrent use. Use [Parse].
type Plan struct {
	Definition

	// steps are in an order in which each comes after those that it depends on.
	steps []*step
	// outputs are the paths of the chain's values by name.
	outputs map[string][]string
}

// step is a parsed step.
type step struct {
	*StepSpec

	endpoint     endpoints.ID
	request      *requestTemplate
	compensation *compensation
	// when is nil if the step always runs.
	when *success.Condition
	// forEach is nil if the step runs once.
	forEach []string
	outputs map[string]*jsonpath.Path
	// before are the steps that end before this one.
	before map[string]bool
}

// compensation is a parsed compensation.
type compensation struct {
	endpoint endpoints.ID
	request  *requestTemplate
}

// step returns a parsed step by its name; nil: there is none.
func (p *Plan) step(name string) *step {
	for _, s := range p.steps {
		if s.Name == name {
			return s
		}
	}
	return nil
}
