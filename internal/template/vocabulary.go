package template

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values holds the values of one run. Instants are UTC; zero means unknown. It is not safe for
// concurrent use.
type Values struct {
	Run      Run
	Endpoint Endpoint
	Last     Last
	// Secrets is nil if there are none.
	Secrets Secrets
	// Chain holds the values of a chain's step; see [Template.Fill].
	Chain map[string]any

	made []string // see Made
}

// Made returns the texts that filters derived from secrets so far. Like secrets, they must not be
// shown or stored.
func (v *Values) Made() []string { return v.made }

// Run is the run that sends the request.
type Run struct {
	ID           string
	Attempt      int
	ScheduledFor time.Time
}

// Endpoint is the endpoint of the run.
type Endpoint struct {
	ID, Name, Key string
	Labels        map[string]string
}

// Last is the previous finished run of the endpoint. The zero value means that there is none.
type Last struct {
	Status string
	// StatusCode is that of its answer; zero: none.
	StatusCode int
	FinishedAt time.Time
}

// Secrets looks up the values of secrets.
type Secrets interface {
	// Secret returns the value of a secret. Its error names the secret and contains no value.
	Secret(name string) (string, error)
}

// kind is the type of a value.
type kind int

const (
	text kind = iota
	number
	instant
	rawJSON // a JSON document
	encoded // percent-encoded text
)

// value is the result of an action.
type value struct {
	kind kind
	// text is empty for an instant.
	text  string
	at    time.Time
	known bool
}

func textOf(s string) value {
	return value{
		kind:  text,
		text:  s,
		known: s != "",
	}
}

func numberOf(n int64, known bool) value {
	if !known {
		return value{kind: number}
	}
	return value{
		kind:  number,
		text:  strconv.FormatInt(n, 10),
		known: true,
	}
}

func instantOf(t time.Time) value {
	return value{
		kind:  instant,
		at:    t.UTC(),
		known: !t.IsZero(),
	}
}

// String returns the value as text; an unknown value is empty. Instants have the form of RFC 3339
// with milliseconds.
func (v value) String() string {
	if v.kind == instant && v.known {
		return v.at.Format("2006-01-02T15:04:05.000Z")
	}
	return v.text
}

// word is a name of the vocabulary.
type word struct {
	name string
	kind kind
	of   func(*Values) value
}

// vocabulary returns every name with a fixed meaning. Labels and secrets come in addition.
func vocabulary() []word {
	return []word{
		{"run.id", text, func(v *Values) value { return textOf(v.Run.ID) }},
		{"run.attempt", number, func(v *Values) value { return numberOf(int64(v.Run.Attempt), true) }},
		{"run.scheduledFor", instant, func(v *Values) value { return instantOf(v.Run.ScheduledFor) }},
		{"endpoint.id", text, func(v *Values) value { return textOf(v.Endpoint.ID) }},
		{"endpoint.name", text, func(v *Values) value { return textOf(v.Endpoint.Name) }},
		{"endpoint.key", text, func(v *Values) value { return textOf(v.Endpoint.Key) }},
		{"last.status", text, func(v *Values) value { return textOf(v.Last.Status) }},
		{"last.statusCode", number, func(v *Values) value { return numberOf(int64(v.Last.StatusCode), v.Last.StatusCode > 0) }},
		{"last.finishedAt", instant, func(v *Values) value { return instantOf(v.Last.FinishedAt) }},
	}
}

// lookUp returns the word of a name.
func lookUp(name string) (word, bool) {
	words := vocabulary()
	at := slices.IndexFunc(words, func(w word) bool { return w.name == name })
	if at < 0 {
		return word{}, false
	}
	return words[at], true
}

// known lists the vocabulary for error messages.
func known() string {
	words := vocabulary()
	names := make([]string, 0, len(words))
	for _, w := range words {
		names = append(names, w.name)
	}
	return strings.Join(names, ", ") + `, endpoint.labels.NAME and secret "NAME"`
}
