package web

import (
	"encoding/json"
	"strconv"
	"strings"
)

const (
	maxRules  = 16
	maxRedact = 32
)

// authMembers returns what each type of authentication asks for, by the names of the API.
func authMembers() map[string][]string {
	return map[string][]string{
		"basic": {"username", "password"}, "bearer": {"token"}, "apiKey": {"header", "value"},
		"oauth2": {"tokenUrl", "clientId", "clientSecret", "scopes", "audience"},
	}
}

func tlsMembers() []string {
	return []string{"caCertificates", "clientCertificate", "clientKey", "serverName", "minVersion"}
}

// flat names the field of the form for a member of an object: authUsername.
func flat(object, member string) string { return object + strings.ToUpper(member[:1]) + member[1:] }

// row names a field of a list of rows, such as rule2Op, and the row itself without a member: rule2.
func row(list string, i int, member string) string { return list + strconv.Itoa(i) + member }

// putDelivery adds the fields that have parts.
func (f *form) putDelivery(d map[string]any) {
	f.putAuth(d)
	f.putTLS(d)
	if rules := f.members("rule", maxRules, f.rule); len(rules) > 0 {
		d["successRules"] = rules
	}
	if hidden := f.members("redact", maxRedact, f.redaction); len(hidden) > 0 {
		d["redact"] = hidden
	}
}

func (f *form) putAuth(d map[string]any) {
	kind := f.get("authType")
	if kind == "" {
		return
	}
	auth := map[string]any{"type": kind}
	for _, member := range authMembers()[kind] {
		switch value := f.get(flat("auth", member)); {
		case value == "":
		case member == "scopes":
			scopes := []any{}
			for scope := range strings.FieldsSeq(value) {
				scopes = append(scopes, scope)
			}
			auth[member] = scopes
		default:
			auth[member] = value
		}
	}
	d["auth"] = auth
}

func (f *form) putTLS(d map[string]any) {
	tls := map[string]any{}
	for _, member := range tlsMembers() {
		if value := f.get(flat("tls", member)); value != "" {
			tls[member] = plainLines(value)
		}
	}
	if f.get("tlsSkipVerify") != "" {
		tls["skipVerify"] = true
	}
	if len(tls) > 0 {
		d["tls"] = tls
	}
}

// members reads a list from rows of form fields, one row for each member. Rows without a type are
// ignored.
func (f *form) members(list string, most int, read func(i int) map[string]any) (members []any) {
	f.used[list] = nil
	for i := range most {
		if f.get(row(list, i, "Type")) == "" {
			continue
		}
		members = append(members, read(i))
		f.used[list] = append(f.used[list], i)
	}
	return members
}

// rule returns a rule about answers as the API takes it.
func (f *form) rule(i int) map[string]any {
	kind, of := f.get(row("rule", i, "Type")), plainLines(f.get(row("rule", i, "Of")))
	rule := map[string]any{"type": kind}
	switch kind {
	case "latency":
		if n, err := parseLength(of); err != nil {
			f.errors[row("rule", i, "")] = "must be a maximum latency, such as 500ms"
		} else {
			rule["maxLatencyMs"] = float64(n)
		}
		return rule
	case "cel":
		return with(rule, "expression", of)
	case "header":
		with(rule, "header", of)
	case "json":
		with(rule, "jsonPath", of)
	}
	with(rule, "op", f.get(row("rule", i, "Op")))
	if value := f.get(row("rule", i, "Value")); value != "" {
		rule["value"] = scalar(value)
	}
	return rule
}

// redaction returns a redaction rule in the form of the API.
func (f *form) redaction(i int) map[string]any {
	kind, of := f.get(row("redact", i, "Type")), plainLines(f.fields[row("redact", i, "Of")])
	if kind != "pattern" { // Blanks are significant in a pattern and its replacement.
		of = strings.TrimSpace(of)
	}
	return with(with(map[string]any{}, kind, of), "replacement", plainLines(f.fields[row("redact", i, "Value")]))
}

// with adds a member that is not empty.
func with(object map[string]any, name, value string) map[string]any {
	if value != "" {
		object[name] = value
	}
	return object
}

// scalar parses numbers, true, false and quoted texts as JSON. Any other text is taken literally.
func scalar(text string) any {
	var value any
	if json.Unmarshal([]byte(text), &value) == nil {
		switch value.(type) {
		case float64, bool, string:
			return value
		}
	}
	return text
}

// scalarText writes a value so that scalar reads it back from a field of one line.
func scalarText(value any) string {
	if text, is := value.(string); is && text != "" && strings.TrimSpace(text) == text && !strings.ContainsAny(text, lineBreaks) && scalar(text) == any(text) {
		return text
	}
	raw, err := json.Marshal(value)
	if err != nil || value == nil { // It was JSON a moment ago.
		return ""
	}
	return string(raw)
}

// fillDelivery fills the fields that have parts from an endpoint as JSON has it.
func fillDelivery(fields map[string]string, e map[string]any) {
	for name, value := range object(e["auth"]) {
		if scopes, is := value.([]any); is {
			value = joined(scopes)
		}
		fields[flat("auth", name)], _ = value.(string) // Everything else is a text.
	}
	for name, value := range object(e["tls"]) {
		fields[flat("tls", name)], _ = value.(string) // Likewise, but for the flag.
		if value == true {
			fields[flat("tls", name)] = "on"
		}
	}
	fillRules(fields, e)
}

// lineText formats a text as the value of a name=value line, which unquoted parses: literally, or
// as JSON if a line cannot hold it.
func lineText(text string) string {
	if fitsLine(text) {
		return text
	}
	var quoted strings.Builder
	writer := json.NewEncoder(&quoted)
	writer.SetEscapeHTML(false)
	_ = writer.Encode(text) // A text is JSON, and a Builder takes all of it.
	return strings.TrimSpace(quoted.String())
}

// unquoted parses the value of a name=value line. A quoted text is decoded as JSON only if its
// decoded form does not fit a line; otherwise the quotes belong to the value.
func unquoted(text string) string {
	var value string
	if json.Unmarshal([]byte(text), &value) == nil && strings.HasPrefix(text, `"`) && !fitsLine(value) {
		return value
	}
	return text
}

// fitsLine reports whether a text needs no quotes on a line: it has no line breaks and no blanks at
// its ends, and unquoted returns it unchanged.
func fitsLine(text string) bool {
	return !strings.ContainsAny(text, lineBreaks) && strings.TrimSpace(text) == text && unquoted(text) == text
}

func fillRules(fields map[string]string, e map[string]any) {
	rules, _ := e["successRules"].([]any) // Absent: none.
	for i, member := range rules {
		rule := object(member)
		fields[row("rule", i, "Type")], _ = rule["type"].(string)
		fields[row("rule", i, "Op")], _ = rule["op"].(string)
		fields[row("rule", i, "Value")] = scalarText(rule["value"])
		for _, name := range []string{"header", "jsonPath", "expression"} {
			if of, is := rule[name].(string); is {
				fields[row("rule", i, "Of")] = of
			}
		}
		if n, is := rule["maxLatencyMs"].(float64); is {
			fields[row("rule", i, "Of")] = lengthField(int64(n))
		}
	}
	hidden, _ := e["redact"].([]any) // Absent: nothing.
	for i, member := range hidden {
		rule := object(member)
		for _, name := range []string{"header", "jsonPath", "pattern"} {
			if of, is := rule[name].(string); is {
				fields[row("redact", i, "Type")], fields[row("redact", i, "Of")] = name, of
			}
		}
		fields[row("redact", i, "Value")], _ = rule["replacement"].(string)
	}
}

func object(value any) map[string]any {
	members, _ := value.(map[string]any) // Absent: none.
	return members
}

func joined(list []any) string {
	texts := make([]string, len(list))
	for i, value := range list {
		texts[i], _ = value.(string) // They are texts.
	}
	return strings.Join(texts, " ")
}

// rows returns how many rows of a list the form shows: those that are written in, and an empty one.
func (f *form) rows(list string, most int) int {
	n := 1
	for i := range most {
		if f.get(row(list, i, "Type")) != "" || f.get(row(list, i, "Of")) != "" {
			n = i + 2
		}
	}
	return min(n, most)
}

// written reports whether any field with this name prefix has a value or an error.
func (f *form) written(prefix string) bool {
	for name := range f.errors {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for name, value := range f.fields {
		if strings.HasPrefix(name, prefix) && value != "" {
			return true
		}
	}
	return false
}
