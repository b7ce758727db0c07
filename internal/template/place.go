package template

import (
	"encoding/json"
	"strings"
)

// placed determines the place of each action, and refuses actions whose value could change the
// structure of the text.
func (p *parser) placed() {
	switch p.options.Field {
	case URL:
		p.placedInURL()
	case JSON:
		p.placedInJSON()
	case Text, Header, Form, XML:
	}
}

// refuse reports an action as a fault.
func (p *parser) refuse(a *action, message string) {
	p.faults = append(p.faults, &Error{
		Line:    a.at.line,
		Column:  a.at.column,
		Message: message,
	})
}

// placedInURL requires literal scheme, host, port and fragment, and refuses secrets in the path,
// because error messages show the path.
func (p *parser) placedInURL() {
	before, filled := "", ""
	for i := range p.template.parts {
		part := &p.template.parts[i]
		before += part.literal
		filled += part.literal
		if part.action == nil {
			break
		}
		filled += "x"
		part.within = regionOf(before)
		switch {
		case strings.Contains(before, "#"):
			p.refuse(part.action, "the fragment of a URL is never sent, so it must not hold templates; leave it out")
		case part.within == plain:
			p.refuse(part.action, "scheme, host and port must be literal; templates may stand after the first / behind them")
		case part.within == inPath && part.action.secret != "":
			p.refuse(part.action, "a secret must not stand in the path of a URL, which logs show; put it into a header, the query or the body")
		case part.within == inPath:
			p.template.guarded = true
		}
	}
	if p.template.guarded && len(p.faults) == 0 && traverses(filled) {
		p.fault(0, "a path with templates must not hold the parts . and ..; write where it leads")
	}
}

// regionOf returns the part of a URL that follows a prefix.
func regionOf(before string) place {
	_, after, found := strings.Cut(before, "://")
	switch {
	case !found || !strings.ContainsAny(after, "/?"):
		return plain
	case strings.Contains(after, "?"):
		return inQuery
	default:
		return inPath
	}
}

// placedInJSON distinguishes strings from the rest. Outside a string an action must be a whole
// value, so that no value changes the structure. The text must be valid JSON with samples in place
// of its actions.
func (p *parser) placedInJSON() {
	var scan jsonScan
	var filled strings.Builder
	for i := range p.template.parts {
		part := &p.template.parts[i]
		scan.read(part.literal)
		filled.WriteString(part.literal)
		if part.action == nil {
			break
		}
		switch {
		case scan.escaped || scan.hex > 0:
			p.refuse(part.action, `a template must not stand behind a backslash`)
		case scan.inside:
			part.within = inString
			filled.WriteString("x")
		case !scan.opens() || !closes(p.template.parts[i+1:]):
			p.refuse(part.action, "a template outside a string must be a whole value, with [ , or : before it and , ] or } behind it; put it in quotes to make it part of a string")
		default:
			filled.WriteString("null")
		}
		scan.last = 'x'
	}
	if len(p.faults) == 0 && !json.Valid([]byte(filled.String())) {
		p.fault(0, "with its templates filled in the text must be JSON, as its content type says, and it is not")
	}
}

// jsonScan is a JSON scanner that tracks only strings.
type jsonScan struct {
	inside  bool // inside a string
	escaped bool // after a backslash
	hex     int  // remaining digits of an escape
	last    byte // last byte outside strings that is no space; zero: none
}

func (s *jsonScan) read(text string) {
	for i := range len(text) {
		s.step(text[i])
	}
}

func (s *jsonScan) step(c byte) {
	switch {
	case s.hex > 0:
		s.hex--
	case s.escaped:
		if s.escaped = false; c == 'u' {
			s.hex = 4
		}
	case s.inside && c == '\\':
		s.escaped = true
	case c == '"':
		s.inside, s.last = !s.inside, c
	case !s.inside && strings.IndexByte(jsonSpace, c) < 0:
		s.last = c
	}
}

const jsonSpace = " \t\r\n"

// opens reports whether a value may begin here.
func (s *jsonScan) opens() bool { return s.last == 0 || strings.IndexByte("[:,", s.last) >= 0 }

// closes reports whether a value ends before the given parts. The name of a member is refused,
// because it must be a string.
func closes(parts []part) bool {
	if len(parts) == 0 {
		return true
	}
	behind := strings.TrimLeft(parts[0].literal, jsonSpace)
	if behind == "" {
		return parts[0].action == nil
	}
	return strings.IndexByte(",]}", behind[0]) >= 0
}
