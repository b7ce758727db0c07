package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"rubato/client"
)

// print writes v as indented JSON. A raw response keeps the order of its fields and the digits of
// its numbers.
func (s *session) print(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return s.write(append(text, '\n'))
}

// printLine writes JSON on one line.
func (s *session) printLine(raw json.RawMessage) error {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	line.WriteByte('\n')
	return s.write(line.Bytes())
}

// say writes one formatted line of text.
func (s *session) say(format string, args ...any) error {
	return s.write([]byte(visible(fmt.Sprintf(format+"\n", args...))))
}

func (s *session) write(text []byte) error {
	if _, err := s.stdout.Write(text); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

// oneLine replaces line breaks and tabs, because either would break a table.
var oneLine = strings.NewReplacer("\n", " ", "\t", " ")

// visible replaces control characters and bidirectional controls, because responses of targets are
// untrusted and a terminal would interpret them. Line breaks and tabs stay.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		default:
			return r
		}
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// table writes rows in aligned columns under a header.
func (s *session) table(header []string, rows [][]string) error {
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine.Replace(visible(cell))
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("writing the table: %w", err)
		}
	}
	return w.Flush()
}

// facts writes pairs of name and value, and leaves out empty values.
func (s *session) facts(pairs [][2]string) error {
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	for _, pair := range pairs {
		if pair[1] == "" {
			continue
		}
		// Continuation lines are indented, so that a response cannot imitate a row.
		value := strings.ReplaceAll(visible(pair[1]), "\n", "\n\t")
		if _, err := fmt.Fprintf(w, "%s\t%s\n", visible(pair[0]), value); err != nil {
			return fmt.Errorf("writing the facts: %w", err)
		}
	}
	return w.Flush()
}

// complain writes an error to standard error, in the output format of the command.
func (s *session) complain(err error) {
	if _, silent := errors.AsType[silentError](err); silent {
		return
	}
	if s.json {
		var body any = map[string]string{"code": "failed", "detail": err.Error()}
		if refused, ok := errors.AsType[*client.Problem](err); ok {
			body = refused
		}
		text, fault := json.Marshal(map[string]any{"error": body})
		if fault == nil {
			_, _ = fmt.Fprintf(s.stderr, "%s\n", text)
			return
		}
	}
	_, _ = fmt.Fprintf(s.stderr, "rubato: %s\n", visible(err.Error()))
}

// instant formats a time in UTC with milliseconds; it is empty for nil and for the zero time.
func instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

// milliseconds formats a number of milliseconds as a duration, without trailing zero units.
func milliseconds(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// text returns an optional text, or the empty string for nil.
func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// given returns a pointer to a text, or nil for an empty text, because an empty flag is absent.
func given[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

func decode(raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("reading the answer of the server: %w", err)
	}
	return nil
}

// remarkNone explains an empty table on standard error.
func (s *session) remarkNone(raw json.RawMessage, remark string) error {
	if s.json {
		return nil
	}
	var page struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := decode(raw, &page); err != nil {
		return err
	}
	if len(page.Items) == 0 {
		_, _ = fmt.Fprintf(s.stderr, "%s\n", visible(remark))
	}
	return nil
}

// show prints a response: unchanged with JSON output, otherwise through words.
func show[T any](s *session, raw json.RawMessage, words func(T) error) error {
	if s.json {
		return s.print(raw)
	}
	var thing T
	if err := decode(raw, &thing); err != nil {
		return err
	}
	return words(thing)
}

// deleted reports a deletion.
func (s *session) deleted(name string) error {
	if s.json {
		return s.print(map[string]string{"deleted": name})
	}
	return s.say("%s is deleted", name)
}

// list prints a page of items, and the flag for the next page.
func list[T any](s *session, raw json.RawMessage, header []string, row func(T) []string) error {
	if s.json {
		return s.print(raw)
	}
	var page struct {
		Items      []T    `json:"items"`
		NextCursor string `json:"nextCursor"`
	}
	if err := decode(raw, &page); err != nil {
		return err
	}
	rows := make([][]string, 0, len(page.Items))
	for _, item := range page.Items {
		rows = append(rows, row(item))
	}
	if err := s.table(header, rows); err != nil {
		return err
	}
	if page.NextCursor != "" {
		_, _ = fmt.Fprintf(s.stderr, "there are more: add --cursor %s\n", page.NextCursor)
	}
	return nil
}
