// Package template knows the language in which a request may speak of its run: texts with {{...}} in them.
//
//	https://api.example.com/teams/{{endpoint.labels.team}}/report?for={{run.scheduledFor | date "%F"}}
//
// An action names one value out of a closed vocabulary, or a secret, or writes a string, and sends it through filters:
//
//	action = "{{" value { "|" filter { argument } } "}}"
//	value  = name { "." name | "[" string "]" } | "secret" string | string
//
// There are no loops, no conditions, no definitions and no calls, so what a template may do is what its text shows. [Parse] finds every
// fault, with its place, when the template is registered. [Template.Render] fills in the values of one run; it writes no more than it
// may, and a value never leaves the place at which it stands: it is percent-encoded in a URL, quoted or escaped in JSON, and refused
// where it would end a header. What a template yields depends on its text and its values alone.
//
// A string writes what would otherwise begin an action: {{"{{"}}. A }} outside an action is text.
package template
