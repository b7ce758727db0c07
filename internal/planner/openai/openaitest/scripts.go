package openaitest

import (
	"strings"
)

// Always gives the same answer to every call.
func Always(answer Answer) Script { return func(Call) Answer { return answer } }

// Sequence gives one answer after another, and the last one to every call after it.
func Sequence(answers ...Answer) Script {
	return func(c Call) Answer { return answers[min(c.N, len(answers)-1)] }
}

// Session plays one conversation with each client that begins one, whatever else is asked between: the n-th answer goes to the
// request that already holds n answers of the model.
func Session(answers ...Answer) Script {
	return func(c Call) Answer { return answers[min(c.Turn(), len(answers)-1)] }
}

// Turn counts how often the model has spoken in this conversation.
func (c Call) Turn() int {
	turn := 0
	for _, m := range c.Request.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

// Submission ends a session calmly.
func Submission(reasoning string) Invocation {
	return Invoke("submit_analysis", map[string]any{
		"reasoning": reasoning, "confidence": 0.8, "next_analysis_in_minutes": 60,
	})
}

// Obedient is a model that does what the attacker wrote: it looks at what the target answered, makes every call of want, a few in
// each answer, and then submits all that it was ever shown as its reasoning. Told to use one function, it uses that.
type Obedient struct {
	Want  []Invocation
	Batch int // calls in one answer; 1 if zero
}

// Script returns the behaviour, one conversation at a time.
func (o *Obedient) Script() Script {
	return func(c Call) Answer {
		turn, batch := c.Turn(), max(o.Batch, 1)
		if turn == 0 {
			return Tools(Invocation{Name: "get_latest_response", Arguments: "{}"})
		}
		from := (turn - 1) * batch
		if c.Request.Forced() == "submit_analysis" || from >= len(o.Want) {
			return Tools(Submission(c.shown()))
		}
		return Tools(o.Want[from:min(from+batch, len(o.Want))]...)
	}
}

// shown returns the end of all that the model was shown, as much as an answer holds.
func (c Call) shown() string {
	var b strings.Builder
	for _, m := range c.Request.Messages {
		b.WriteString(m.Content + "\n")
	}
	all := b.String()
	return strings.ToValidUTF8(all[max(0, len(all)-1200):], "")
}
