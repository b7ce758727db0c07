package openaitest

import (
	"strings"
)

// Always returns the same response for every call.
func Always(answer Answer) Script { return func(Call) Answer { return answer } }

// Sequence returns one response after the other, then repeats the last one.
func Sequence(answers ...Answer) Script {
	return func(c Call) Answer { return answers[min(c.N, len(answers)-1)] }
}

// Session plays one conversation with each client, also if clients alternate: response n goes to
// the request that holds n messages of the model.
func Session(answers ...Answer) Script {
	return func(c Call) Answer { return answers[min(c.Turn(), len(answers)-1)] }
}

// Turn returns the number of model messages in this conversation.
func (c Call) Turn() int {
	turn := 0
	for _, m := range c.Request.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	return turn
}

// Submission returns the call that ends a session.
func Submission(reasoning string) Invocation {
	return Invoke("submit_analysis", map[string]any{
		"reasoning": reasoning, "confidence": 0.8, "next_analysis_in_minutes": 60,
	})
}

// Obedient is a model under prompt injection: it reads the target's response, makes every call of
// Want, and then submits its whole input as its reasoning. It obeys tool_choice.
type Obedient struct {
	Want  []Invocation
	Batch int // calls per completion; 1 if zero
}

// Script returns the behaviour.
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

// shown returns the end of the model's input, as much as a response holds.
func (c Call) shown() string {
	var b strings.Builder
	for _, m := range c.Request.Messages {
		b.WriteString(m.Content + "\n")
	}
	all := b.String()
	return strings.ToValidUTF8(all[max(0, len(all)-1200):], "")
}
