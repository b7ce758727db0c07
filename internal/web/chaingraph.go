package web

import (
	"strconv"
	"time"

	"rubato/client"
)

// The sizes of the graph of a chain, in units of its view box.
const (
	boxWidth  = 150
	boxHeight = 34
	boxGap    = 14
	edgeWidth = 46
)

// graph is the picture of the steps of a chain: a column for each distance from the start.
type graph struct {
	width, height int
	boxes         []box
	edges         []edge
}

// box is a step in a graph.
type box struct {
	x, y       int
	name, note string
	status     string // of the step in a run; empty: the graph is that of the definition
}

// edge leads from a step to one that waits for it.
type edge struct{ x1, y1, x2, y2 int }

// drawGraph places the steps of a chain. states are those of a run by step; nil: there is no run.
func drawGraph(steps []client.ChainStep, states map[string]string) graph {
	columns := columnsOf(steps)
	var g graph
	at, rows := map[string]box{}, map[int]int{}
	for _, s := range steps {
		column := columns[s.Name]
		b := box{
			x:      column * (boxWidth + edgeWidth),
			y:      rows[column] * (boxHeight + boxGap),
			name:   s.Name,
			note:   stepNote(s),
			status: states[s.Name],
		}
		rows[column]++
		at[s.Name] = b
		g.boxes = append(g.boxes, b)
		g.width, g.height = max(g.width, b.x+boxWidth), max(g.height, b.y+boxHeight)
	}
	for _, s := range steps {
		for _, name := range value(s.After) {
			from, to := at[name], at[s.Name]
			g.edges = append(g.edges, edge{from.x + boxWidth, from.y + boxHeight/2, to.x, to.y + boxHeight/2})
		}
	}
	return g
}

// columnsOf returns the longest way from the start to each step. The API has refused circles.
func columnsOf(steps []client.ChainStep) map[string]int {
	columns := map[string]int{}
	for range steps { // A way has at most as many steps as the chain.
		for _, s := range steps {
			for _, name := range value(s.After) {
				columns[s.Name] = max(columns[s.Name], columns[name]+1)
			}
		}
	}
	return columns
}

// stepNote says what is special about a step.
func stepNote(s client.ChainStep) string {
	switch {
	case text(s.ForEach) != "":
		return "for each of " + text(s.ForEach)
	case text(s.When) != "":
		return "when " + text(s.When)
	case s.Compensation != nil:
		return "with compensation"
	default:
		return ""
	}
}

// stepBar is the time of a step in the timeline of a run, in thousandths of the run.
type stepBar struct {
	name, status string
	x, width     float64
	took         string // empty: the step has not started
	step         client.ChainRunStep
}

// drawBars returns the timeline of a run. A step in progress lasts until now.
func drawBars(run client.ChainRun, steps []client.ChainRunStep, now time.Time) (bars []stepBar) {
	end := now
	if run.EndedAt != nil {
		end = *run.EndedAt
	}
	whole := max(end.Sub(run.CreatedAt), time.Millisecond)
	share := func(d time.Duration) float64 { return min(max(float64(d)/float64(whole), 0), 1) * 1000 }
	for _, s := range steps {
		b := stepBar{
			name:   s.Name,
			status: stepStatus(s),
			step:   s,
		}
		if s.Element != nil {
			b.name += "." + strconv.Itoa(int(*s.Element))
		}
		if s.StartedAt != nil {
			until := end
			if s.EndedAt != nil {
				until = *s.EndedAt
			}
			b.x, b.took = share(s.StartedAt.Sub(run.CreatedAt)), duration(until.Sub(*s.StartedAt))
			b.width = max(share(until.Sub(run.CreatedAt))-b.x, 3)
		}
		bars = append(bars, b)
	}
	return bars
}

// stepStatus returns the state of a step as other pages name it.
func stepStatus(s client.ChainRunStep) string {
	if s.Status == "active" {
		return string(client.RunStatusRunning)
	}
	return s.Status
}
