package web

import (
	"strconv"
	"strings"

	"rubato/client"
	"rubato/internal/notation"
)

// document returns the endpoint that the fields describe, as the API takes it. What cannot be read is an error at its field.
func (f *form) document() map[string]any {
	d := map[string]any{}
	for _, name := range textFields() {
		if value := f.get(name); value != "" {
			d[name] = value
		}
	}
	if text := f.get("description"); text != "" {
		d["description"] = plainLines(text)
	}
	if body := f.fields["body"]; body != "" { // Blanks may matter there.
		d["body"] = plainLines(body)
	}
	for _, name := range lengthFields() {
		f.putLength(d, name, name)
	}
	for _, name := range numberFields() {
		f.putNumber(d, name, name)
	}
	if f.get("baseline") == "cron" {
		d["baselineCron"] = f.get("baselineCron")
	} else {
		f.putLength(d, "baselineIntervalMs", "baselineIntervalMs")
	}
	if at := f.get("startAt"); at != "" {
		d["startAt"] = withZone(at)
	}
	f.putParts(d)
	f.putLines(d, "headers", ':')
	f.putLines(d, "labels", '=')
	f.putDelivery(d)
	return d
}

func (f *form) get(name string) string { return strings.TrimSpace(f.fields[name]) }

// putParts adds the objects of the document.
func (f *form) putParts(d map[string]any) {
	dst := map[string]any{}
	for _, name := range []string{"gap", "overlap"} {
		if value := f.get(name); value != "" {
			dst[name] = value
		}
	}
	if len(dst) > 0 {
		d["dst"] = dst
	}
	retry := map[string]any{}
	f.putNumber(retry, "maxAttempts", "maxAttempts")
	f.putLength(retry, "backoffMs", "backoffMs")
	f.putLength(retry, "maxBackoffMs", "maxBackoffMs")
	if len(retry) > 0 {
		d["retry"] = retry
	}
}

func (f *form) putLength(d map[string]any, name, field string) {
	value := f.get(field)
	if value == "" {
		return
	}
	n, err := parseLength(value)
	if err != nil {
		f.errors[field] = err.Error()
		return
	}
	d[name] = float64(n)
}

func (f *form) putNumber(d map[string]any, name, field string) {
	value := f.get(field)
	if value == "" {
		return
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		f.errors[field] = "must be a whole number"
		return
	}
	d[name] = float64(n)
}

// putLines adds an object that is written one member a line.
func (f *form) putLines(d map[string]any, field string, separator byte) {
	object := map[string]any{}
	for line := range strings.Lines(f.fields[field]) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, found := notation.CutPair(line, separator)
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" {
			f.errors[field] = "every line is a name, " + map[byte]string{':': "a colon and a value, such as Accept: text/plain", '=': "an equals sign and a value, such as team=shop"}[separator]
			return
		}
		if _, twice := object[name]; twice {
			f.errors[field] = "names " + name + " twice"
			return
		}
		object[name] = value
	}
	d[field] = object
}

// withZone writes an instant of a form, which is UTC, as the API reads it.
func withZone(at string) string {
	switch len(at) {
	case len("2006-01-02T15:04"):
		return at + ":00Z"
	case len("2006-01-02T15:04:05"):
		return at + "Z"
	default:
		return at
	}
}

// fieldsOf returns what the form of an endpoint is filled with.
func fieldsOf(e client.Endpoint) map[string]string {
	fields := map[string]string{
		"name": e.Name, "url": e.URL, "key": text(e.Key), "description": text(e.Description), "method": string(e.Method), "body": text(e.Body),
		"timezone": e.Timezone, "catchUp": string(e.CatchUp), "success": oneLine(e.Success), "planner": string(e.Planner),
		"gap": string(e.DST.Gap), "overlap": string(e.DST.Overlap),
		"jitterMs": lengthField(e.JitterMs), "timeoutMs": lengthField(e.TimeoutMs), "maxExecutionTimeMs": lengthField(e.MaxExecutionTimeMs),
		"maxResponseKb": strconv.Itoa(int(e.MaxResponseKb)), "followRedirects": strconv.Itoa(int(e.FollowRedirects)),
		"maxAttempts": strconv.Itoa(int(e.Retry.MaxAttempts)), "backoffMs": lengthField(e.Retry.BackoffMs), "maxBackoffMs": lengthField(e.Retry.MaxBackoffMs),
		"headers": strings.Join(notation.ListPairs(e.Headers, ": "), "\n"), "labels": strings.Join(notation.ListPairs(e.Labels, "="), "\n"), "baseline": "interval",
	}
	for name, value := range map[string]*int64{
		"baselineIntervalMs": e.BaselineIntervalMs, "minIntervalMs": e.MinIntervalMs, "maxIntervalMs": e.MaxIntervalMs,
	} {
		if value != nil {
			fields[name] = lengthField(*value)
		}
	}
	if e.BaselineCron != nil {
		fields["baseline"], fields["baselineCron"] = "cron", oneLine(*e.BaselineCron)
	}
	if e.StartAt != nil {
		fields["startAt"] = e.StartAt.UTC().Format("2006-01-02T15:04:05")
	}
	if e.ResponseTailKb != 0 {
		fields["responseTailKb"] = strconv.Itoa(int(e.ResponseTailKb))
	}
	all, _ := plain(e).(map[string]any) // An endpoint is an object.
	fillDelivery(fields, all)
	return fields
}

// lineBreaks are what browsers drop from fields of one line.
const lineBreaks = "\r\n"

// oneLine returns a text in which all blanks mean the same with its line breaks as blanks.
func oneLine(text string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(text) }

// plainLines returns a text of several lines with the ends of a file's lines instead of those that browsers send, and make of others.
func plainLines(text string) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
}
