package simulate

import (
	"slices"
	"strings"
	"time"

	"rubato/internal/endpoints"
	"rubato/internal/planner"
	"rubato/internal/spending"
	"rubato/internal/tempo"
)

// Budget is a budget that endpoints share.
type Budget struct {
	// Name is that of its row in the report.
	Name string
	// Text is the budget as written, such as 600/h.
	Text   string
	Budget tempo.Budget
	// Label and Value select the endpoints with a label; empty: every endpoint.
	Label, Value string
	// Host selects the endpoints of a host; empty: every host.
	Host string
}

// readBudget reads a shared budget.
func readBudget(o *object) Budget {
	b := Budget{
		Name: o.text("name"),
		Text: o.text("budget"),
		Host: o.text("host"),
	}
	var err error
	if b.Budget, err = tempo.ParseBudget(b.Text); err != nil {
		o.add(o.at("budget"), codeValue, "must be "+tempo.BudgetForm)
	}
	if label := o.text("label"); label != "" {
		b.Label, b.Value, _ = strings.Cut(label, "=")
		if b.Label == "" || b.Value == "" {
			o.add(o.at("label"), codeValue, "must be a name and a value, such as team=shop")
		}
	}
	switch {
	case b.Host != "" && b.Label != "":
		o.add(o.at("host"), codeValue, "excludes label: a budget belongs to a host, to a label, or to every endpoint")
	case b.Name != "":
	case b.Host != "":
		b.Name = "host " + b.Host
	case b.Label != "":
		b.Name = "label " + b.Label + "=" + b.Value
	default:
		b.Name = "every endpoint"
	}
	o.end()
	return b
}

// key returns the name of the budget among those that workers look up.
func (b *Budget) key() string {
	switch {
	case b.Label != "":
		return spending.LabelName(b.Label, b.Value)
	case b.Host != "":
		return spending.HostName(b.Host)
	default:
		return spending.Tenant
	}
}

// sharedBudget is a shared budget in a world.
type sharedBudget struct {
	*Budget

	order   int
	members []*actor
	price   float64
}

// setPrice passes a price to the endpoints that share the budget.
func (b *sharedBudget) setPrice(price float64) {
	b.price = price
	shared := &endpoints.SharedBudget{Name: b.Name + " " + b.Text, Price: price}
	for _, a := range b.members {
		a.endpoint.Shared = shared
	}
}

// step moves the price by the runs since the step before.
func (b *sharedBudget) step(since time.Duration) {
	var used int64
	for _, a := range b.members {
		used += a.polls - a.counted
		a.counted = a.polls
	}
	b.setPrice(b.Budget.Budget.Next(b.price, used, since))
}

// cohort is a set of endpoints that depend on each other, by a group or a shared budget.
type cohort []*Endpoint

// policies returns the names of the policies of the endpoints, in the order of their appearance.
func (c cohort) policies() (names []string) {
	for _, e := range c {
		for _, p := range e.Policies {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

// policy returns the policy with a name. If the endpoint has none, it is the endpoint's first one,
// and own is false.
func (e *Endpoint) policy(name string) (p *Policy, own bool) {
	for i := range e.Policies {
		if e.Policies[i].Name == name {
			return &e.Policies[i], true
		}
	}
	return &e.Policies[0], false
}

// cohorts divides the endpoints into cohorts, in the order of their first endpoints.
func (s *Scenario) cohorts() []cohort {
	var list []cohort
	byBond := map[string]int{} // place in list
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		var bonds []string
		spec := &e.Policies[0].Spec
		if group := spec.Labels[planner.GroupLabel]; group != "" {
			bonds = append(bonds, "group "+group)
		}
		if b := s.budgetOf(spec); b >= 0 {
			bonds = append(bonds, item("budget", b))
		}
		list = join(list, byBond, e, bonds)
	}
	return slices.DeleteFunc(list, func(c cohort) bool { return len(c) == 0 })
}

// join adds an endpoint to the cohort of its bonds. If the bonds belong to several cohorts, these
// become one.
func join(list []cohort, byBond map[string]int, e *Endpoint, bonds []string) []cohort {
	place := len(list)
	for _, bond := range bonds {
		if at, known := byBond[bond]; known {
			place = min(place, at)
		}
	}
	if place == len(list) {
		list = append(list, nil)
	}
	for _, bond := range bonds {
		at, known := byBond[bond]
		if known && at != place {
			list[place], list[at] = append(list[place], list[at]...), nil
			for other, old := range byBond {
				if old == at {
					byBond[other] = place
				}
			}
		}
		byBond[bond] = place
	}
	list[place] = append(list[place], e)
	return list
}

// budgetOf returns the index of the budget that an endpoint shares, as workers find it; -1: none.
func (s *Scenario) budgetOf(spec *endpoints.Spec) int {
	if spec.Budget != "" {
		return -1
	}
	list := make([]spending.Budget, len(s.Budgets))
	for i := range s.Budgets {
		list[i].Name = s.Budgets[i].key()
	}
	found := spending.NewBook(list).For([16]byte{}, spec.Host(), spec.Labels)
	if found == nil {
		return -1
	}
	return slices.IndexFunc(s.Budgets, func(b Budget) bool { return b.key() == found.Name })
}
