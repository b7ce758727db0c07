package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Parse parses a text. It returns nil for a text that is no template, otherwise the template or
// every fault.
func Parse(text string, o Options) (*Template, []*Error) {
	if !Is(text) {
		return nil, nil
	}
	p := &parser{
		lexer:    lexer{text: text},
		options:  o,
		template: &Template{field: o.Field},
	}
	for p.part() {
	}
	if len(p.faults) == 0 {
		p.placed()
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	return p.template, nil
}

// parser parses one text.
type parser struct {
	lexer
	options  Options
	template *Template
	faults   []*Error
	actions  int
	// began is the offset of the current action.
	began int
}

// part parses a literal and the action after it, and reports whether more text follows.
func (p *parser) part() bool {
	rest := p.text[p.at:]
	at := strings.Index(rest, Open)
	if at < 0 {
		p.add(part{literal: rest})
		return false
	}
	p.at += at
	if p.actions++; p.actions > maxActions {
		p.fault(p.at, "a text may have at most %d actions", maxActions)
		return false
	}
	p.began = p.at
	p.at += len(Open)
	a := p.action()
	if a != nil {
		a.source = p.text[p.began:p.at]
		p.add(part{literal: rest[:at], action: a})
	}
	return p.at < len(p.text) && len(p.faults) < maxErrors
}

func (p *parser) add(next part) {
	p.template.size += len(next.literal)
	p.template.parts = append(p.template.parts, next)
}

// action parses an action after its opening braces. For an unparsable action it returns nil and
// continues behind it.
func (p *parser) action() *action {
	a := &action{at: positionOf(p.text, p.began)}
	next, ok := p.value(a)
	for ok && next.kind == tokenMark && next.text == "|" {
		if len(a.filters) == maxFilters {
			p.fault(next.at, "an action may have at most %d filters", maxFilters)
			ok = false
			break
		}
		next, ok = p.filter(a)
	}
	if ok && next.kind != tokenEnd {
		p.unexpected(next, "a filter after |, or }}")
		ok = false
	}
	if !ok {
		p.at = next.at // The last token may be or contain the end of the action.
		p.skip()
		return nil
	}
	if !p.labeled(a) {
		return nil
	}
	a.defaulted = len(a.filters) > 0 && a.filters[0].name == "default"
	return a
}

// labeled reports whether the label of an action exists or has a default.
func (p *parser) labeled(a *action) bool {
	if a.label == "" || p.options.Labels[a.label] != "" || len(a.filters) > 0 && a.filters[0].name == "default" {
		return true
	}
	p.fault(p.began, "the endpoint has no label %s; add it, or give a default: {{%s | default \"\"}}", quote(a.label), a.name)
	return false
}

// value parses the value of an action, and returns the token after it.
func (p *parser) value(a *action) (token, bool) {
	first := p.next()
	switch {
	case first.kind == tokenString:
		a.name = "a string"
		a.value = func(*Values) (value, error) {
			return value{
				kind:  text,
				text:  first.text,
				known: true,
			}, nil
		}
		return p.next(), true
	case first.kind == tokenName && first.text == "secret":
		return p.secret(a)
	case first.kind == tokenName:
		return p.path(a, first)
	case first.kind == tokenEnd:
		p.fault(first.at, "an action must not be empty; it knows %s", p.known())
		return first, false
	default:
		p.unexpected(first, "a name, a string or a secret")
		return first, false
	}
}

// secret parses the name of a secret.
func (p *parser) secret(a *action) (token, bool) {
	of := p.next()
	if of.kind != tokenString || of.text == "" {
		p.unexpected(of, `the name of the secret in quotes, such as {{secret "api-token"}}`)
		return of, false
	}
	a.name, a.secret = "secret "+quote(of.text), of.text
	a.value = func(v *Values) (value, error) {
		if v.Secrets == nil {
			return value{}, errors.New("is not there: no secrets are known here")
		}
		found, err := v.Secrets.Secret(of.text)
		if err != nil {
			return value{}, &vaultError{err}
		}
		return value{
			kind:  text,
			text:  found,
			known: true,
		}, nil
	}
	return p.next(), true
}

// path parses a name of the vocabulary.
func (p *parser) path(a *action, first token) (token, bool) {
	names := []string{first.text}
	if !strings.Contains(known(), first.text+".") && !p.options.Chain.begins(first.text) {
		p.fault(first.at, "%s is not known here; there are %s", quote(first.text), p.known())
		return first, false
	}
	next := p.next()
	for ; next.kind == tokenMark && (next.text == "." || next.text == "["); next = p.next() {
		member, ok := p.member(next)
		if !ok {
			return next, false
		}
		names = append(names, member)
	}
	if p.options.Chain.begins(first.text) {
		return next, p.chained(a, first, names)
	}
	if label, is := labelOf(names); is {
		a.name, a.label = "endpoint.labels."+label, label
		a.value = func(v *Values) (value, error) { return textOf(v.Endpoint.Labels[label]), nil }
		return next, true
	}
	a.name = strings.Join(names, ".")
	w, is := lookUp(a.name)
	if !is {
		p.fault(first.at, "%s is not known here; there are %s", quote(a.name), p.known())
		return next, false
	}
	a.kind, a.last = w.kind, names[0] == "last"
	a.value = func(v *Values) (value, error) { return w.of(v), nil }
	return next, true
}

// labelOf returns the label that a path names.
func labelOf(path []string) (string, bool) {
	if len(path) != 3 || path[0] != "endpoint" || path[1] != "labels" || path[2] == "" {
		return "", false
	}
	return path[2], true
}

// member parses one step of a path, after its mark.
func (p *parser) member(opened token) (string, bool) {
	of := p.next()
	if opened.text == "." {
		if of.kind != tokenName {
			p.unexpected(of, `a name after the dot; write odd ones as endpoint.labels["odd name"]`)
		}
		return of.text, of.kind == tokenName
	}
	if of.kind != tokenString {
		p.unexpected(of, `a name in quotes, such as endpoint.labels["odd name"]`)
		return "", false
	}
	if closed := p.next(); closed.kind != tokenMark || closed.text != "]" {
		p.unexpected(closed, "a ]")
		return "", false
	}
	return of.text, true
}

// filter parses a filter with its arguments, and returns the token after them.
func (p *parser) filter(a *action) (token, bool) {
	of := p.next()
	if of.kind != tokenName {
		p.unexpected(of, "the name of a filter: "+filterNames())
		return of, false
	}
	var args []token
	next := p.next()
	for ; next.kind == tokenString || next.kind == tokenName; next = p.next() {
		args = append(args, next)
	}
	f, err := makeFilter(of.text, args, a.kind)
	if err != "" {
		p.fault(of.at, "%s", err)
		return next, false
	}
	a.filters = append(a.filters, f)
	a.kind = f.kind
	return next, true
}

func (p *parser) unexpected(got token, want string) {
	if got.kind == tokenBad && got.at == len(p.text) {
		p.fault(p.began, "%s", got.text)
		return
	}
	if got.kind == tokenBad {
		p.fault(got.at, "%s", got.text)
		return
	}
	p.fault(got.at, "%s does not belong here; write %s", quote(got.text), want)
}

func (p *parser) fault(at int, format string, args ...any) {
	place := positionOf(p.text, at)
	p.faults = append(p.faults, &Error{
		Line:    place.line,
		Column:  place.column,
		Message: fmt.Sprintf(format, args...),
	})
}

// quote quotes a piece of a template with any content.
func quote(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "..."
	}
	return strconv.Quote(s)
}
