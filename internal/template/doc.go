// Package template implements the template language of requests: texts with {{...}} actions.
//
//	https://api.example.com/teams/{{endpoint.labels.team}}/report?for={{run.scheduledFor | date "%F"}}
//
// An action names one value of a closed vocabulary, a secret, or a string literal, and passes it
// through filters:
//
//	action = "{{" value { "|" filter { argument } } "}}"
//	value  = name { "." name | "[" string "]" } | "secret" string | string
//
// There are no loops, conditions, definitions or calls, so that the effect of a template is visible
// in its text. [Parse] reports every fault with its place when the template is registered.
// [Template.Render] fills in the values of one run, up to a maximum length. A value cannot break
// out of its place: it is percent-encoded in a URL, escaped in JSON, and refused if it would end a
// header. The output is a pure function of the template and its values.
//
// A string literal can produce the text that begins an action: {{"{{"}}. A }} outside an action is
// text.
package template
