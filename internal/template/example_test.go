package template_test

import (
	"fmt"
	"time"

	"rubato/internal/template"
)

func ExampleParse() {
	parsed, faults := template.Parse(
		`https://api.example.com/teams/{{endpoint.labels.team}}?day={{run.scheduledFor | date "%F" "Europe/Berlin"}}`,
		template.Options{Field: template.URL, Labels: map[string]string{"team": "north & west"}},
	)
	if len(faults) > 0 {
		fmt.Println(faults[0])
		return
	}
	text, err := parsed.Render(&template.Values{
		Run:      template.Run{ScheduledFor: time.Date(2026, 11, 21, 23, 30, 0, 0, time.UTC)},
		Endpoint: template.Endpoint{Labels: map[string]string{"team": "north & west"}},
	}, 2048)
	fmt.Println(text, err)
	// Output: https://api.example.com/teams/north%20%26%20west?day=2026-11-22 <nil>
}

func ExampleParse_fault() {
	_, faults := template.Parse("https://{{endpoint.key}}.example.com/", template.Options{Field: template.URL})
	fmt.Println(faults[0])
	// Output: line 1, column 9: scheme, host and port must be literal; templates may stand after the first / behind them
}
