package notices

import (
	"fmt"
	"strings"
	"time"
)

// Subject returns a summary of the notice on one line.
func (p *Delivery) Subject() string {
	name := `"` + p.EndpointName + `"`
	if p.Test {
		return "Test of the notice rule " + p.Rule
	}
	switch p.Kind {
	case Recovered:
		return name + " " + p.overWords()
	case Withdrawn:
		return fmt.Sprintf("%s is watched no longer after %s: %s", name, span(p.ClosedAt.Sub(p.OpenedAt)), p.causeWords())
	case Reminder:
		return fmt.Sprintf("%s still %s, for %s", name, p.words(), span(p.Now.Sub(p.OpenedAt)))
	case Opened:
	}
	return name + " " + p.words()
}

// words describes the problem.
func (p *Delivery) words() string {
	d := p.Detail
	switch p.Event {
	case Failures:
		return fmt.Sprintf("fails: %s in a row", count(d.Failures, "failure", "failures"))
	case Late:
		return "runs late, by " + span(time.Duration(d.LateMs)*time.Millisecond) + " or more"
	case Lost:
		return "lost a run"
	case Paused:
		return "is paused, which no person asked for"
	case Suggestion:
		return "has a suggestion of the planner that waits"
	case HostOpen:
		return "calls " + d.Host + ", which fails: no endpoint of this host runs"
	case DeadLetter:
		return "has a run that was given up, as a dead letter"
	case Unroutable:
		return "has required tags that no active worker has: it does not run"
	}
	return "needs a look"
}

// overWords describes the recovery.
func (p *Delivery) overWords() string {
	after := " after " + span(p.ClosedAt.Sub(p.OpenedAt))
	switch p.Event {
	case Failures:
		return "fails no longer" + after
	case Late:
		return "runs on time again" + after
	case Lost:
		return "runs again" + after
	case Paused:
		return "is paused no longer" + after
	case Suggestion:
		return "has no suggestion that waits any longer" + after
	case HostOpen:
		return "runs again, as all endpoints of " + p.Detail.Host + " do" + after
	case DeadLetter:
		return "has no open dead letter any longer" + after
	case Unroutable:
		return "has a worker with the required tags again" + after
	}
	return "is well again" + after
}

// causeWords describes why the episode ended without a recovery.
func (p *Delivery) causeWords() string {
	switch p.Cause {
	case RuleDeleted:
		return "the notice rule was deleted"
	case RuleChanged:
		return "the notice rule was changed"
	case EndpointArchived:
		return "the endpoint was archived"
	}
	return "it is no longer watched"
}

// Lines returns the details of the notice, one fact per line.
func (p *Delivery) Lines() []string {
	d := p.Detail
	var lines []string
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, name+": "+value)
		}
	}
	add("Endpoint", p.EndpointID.String())
	add("Target", strings.TrimSpace(p.Spec.Method+" "+p.Host))
	add("Rule", p.Rule)
	add("Since", p.OpenedAt.UTC().Format(time.RFC3339))
	if !p.ClosedAt.IsZero() {
		add("Until", p.ClosedAt.UTC().Format(time.RFC3339))
	}
	if p.Kind == Withdrawn {
		add("Ended", p.causeWords()+"; whether it recovered is not known")
	}
	add("Run", d.RunID)
	if d.Status != "" {
		add("Outcome", strings.TrimSpace(d.Status+" "+d.ReasonCode+statusWords(d.StatusCode)))
	}
	add("Host", d.Host)
	add("Error", d.Error)
	add("Reason", d.Reason)
	add("Runbook", p.Spec.RunbookURL)
	add("Suggestion", d.SuggestionID)
	add("Console", p.Link())
	add("Run in the console", p.RunLink())
	return lines
}

func statusWords(code int) string {
	if code == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d)", code)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// span formats a duration for people.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		text := d.Round(time.Second).String()
		if whole, is := strings.CutSuffix(text, "m0s"); is {
			return whole + "m"
		}
		return text
	}
}
