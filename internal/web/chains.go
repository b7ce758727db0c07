package web

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"rubato/client"
	"rubato/internal/auth"
)

// chainList is the view model of the list of chains.
type chainList struct {
	items        []client.Chain
	now          time.Time
	cursor, next string
}

func (v *pageRequest) chains() error {
	list := chainList{now: time.Now(), cursor: v.value("cursor")}
	query := url.Values{"limit": {rowsPerPage}}
	if list.cursor != "" {
		query.Set("cursor", list.cursor)
	}
	var found client.ChainList
	if err := v.get("/v1/chains", query, &found); err != nil {
		return err
	}
	list.items, list.next = found.Items, text(found.NextCursor)
	return v.show(page{title: "Chains", nav: "chains"}, chainsPage(list))
}

// chainView is the view model of one chain.
type chainView struct {
	chain client.Chain
	runs  []client.ChainRun
	graph graph
	now   time.Time
	write bool
	once  string // idempotencyKey of a start from this page
	input string // an example of the input
}

func chainAPI(name string) string { return "/v1/chains/" + url.PathEscape(name) }

func (v *pageRequest) chain() error {
	view, err := v.chainView()
	if err != nil {
		return err
	}
	return v.show(page{title: view.chain.Name, nav: "chains"}, chainPage(view))
}

// chainLive streams the newest runs of a chain.
func (v *pageRequest) chainLive() error {
	return v.live(func() (templ.Component, error) {
		view, err := v.chainView()
		return chainRunTable(view), err
	})
}

func (v *pageRequest) chainView() (view chainView, err error) {
	view = chainView{
		now:   time.Now(),
		write: v.who.May(auth.Write),
		once:  rand.Text(),
	}
	api := chainAPI(v.r.PathValue("name"))
	if err := v.get(api, nil, &view.chain); err != nil {
		return view, err
	}
	var found client.ChainRunList
	if err := v.get(api+"/runs", url.Values{"limit": {"20"}}, &found); err != nil {
		return view, err
	}
	view.runs, view.graph = found.Items, drawGraph(view.chain.Definition.Steps, nil)
	view.input, err = exampleInput(view.chain.Definition)
	return view, err
}

// exampleInput returns an input of a chain as JSON: defaults, and null for required values.
func exampleInput(spec client.ChainSpec) (string, error) {
	values := map[string]any{}
	if spec.Inputs != nil {
		for name, in := range *spec.Inputs {
			values[name] = in.Default
		}
	}
	raw, err := json.MarshalIndent(values, "", "  ")
	return string(raw), err
}

// startChain starts a run of a chain, and shows it.
func (v *pageRequest) startChain() error {
	start := client.ChainStart{IdempotencyKey: given(v.value("once"))}
	if input := strings.TrimSpace(v.value("input")); input != "" {
		if err := json.Unmarshal([]byte(input), &start.Input); err != nil {
			return &client.Problem{
				Status: 422,
				Title:  "Unprocessable Entity",
				Detail: "the input is no JSON object: " + err.Error(),
			}
		}
	}
	var started client.ChainRun
	if err := v.post(chainAPI(v.r.PathValue("name"))+"/run", "", start, &started); err != nil {
		return err
	}
	return v.seeOther("/console/chain-runs/" + started.ID)
}

// chainRunView is the view model of one run of a chain.
type chainRunView struct {
	run   client.ChainRun
	graph graph
	bars  []stepBar
	now   time.Time
	write bool
}

func (v *pageRequest) chainRun() error {
	view, err := v.chainRunView()
	if err != nil {
		return err
	}
	return v.show(page{title: "Run of " + view.run.Chain, nav: "chains"}, chainRunPage(view))
}

// chainRunLive streams the state of a run.
func (v *pageRequest) chainRunLive() error {
	return v.live(func() (templ.Component, error) {
		view, err := v.chainRunView()
		return chainRunPart(view), err
	})
}

func (v *pageRequest) chainRunView() (view chainRunView, err error) {
	view = chainRunView{now: time.Now(), write: v.who.May(auth.Write)}
	if err := v.get("/v1/chain-runs/"+url.PathEscape(v.r.PathValue("id")), nil, &view.run); err != nil {
		return view, err
	}
	steps := value(view.run.Steps)
	states := map[string]string{}
	for _, s := range steps {
		if s.Element == nil {
			states[s.Name] = stepStatus(s)
		}
	}
	if view.run.Definition != nil {
		view.graph = drawGraph(view.run.Definition.Steps, states)
	}
	view.bars = drawBars(view.run, steps, view.now)
	return view, nil
}

// value returns what a pointer of the API points to; the zero value for nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// cancelChainRun asks for the end of a run.
func (v *pageRequest) cancelChainRun() error {
	id := v.r.PathValue("id")
	if err := v.post("/v1/chain-runs/"+url.PathEscape(id)+"/cancel", "", nil, nil); err != nil {
		return err
	}
	return v.seeOther("/console/chain-runs/" + id)
}

// inProgress reports whether a run of a chain has not ended.
func inProgress(run client.ChainRun) bool { return run.EndedAt == nil }

// jsonText returns a value of the API as indented JSON.
func jsonText(values map[string]any) string {
	raw, err := json.MarshalIndent(values, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// elementCounts returns the numbers of elements of a step by status; empty: it has none.
func elementCounts(s client.ChainRunStep) string {
	numbers := value(s.Elements)
	list := make([]string, 0, len(numbers))
	for _, status := range slices.Sorted(maps.Keys(numbers)) {
		list = append(list, strconv.Itoa(int(numbers[status]))+" "+status)
	}
	return strings.Join(list, ", ")
}

// inputNames returns the inputs of a chain, with a star for a required one.
func inputNames(spec client.ChainSpec) string {
	inputs := value(spec.Inputs)
	names := slices.Sorted(maps.Keys(inputs))
	for i, name := range names {
		if value(inputs[name].Required) {
			names[i] += "*"
		}
	}
	return strings.Join(names, ", ")
}
