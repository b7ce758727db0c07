package change

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"rubato/internal/budget"
	"rubato/internal/jsonpath"
	"rubato/internal/runs"
)

// MaxPaths is the maximum number of paths of each list of an endpoint.
const MaxPaths = 64

// Form is the part of an answer that is compared. The zero Form compares everything. It is safe for
// concurrent use, and must not be changed once it is used.
type Form struct {
	key, ignore []*jsonpath.Path
	// secret keys the digest, so that it cannot be compared with guesses; nil: it is not keyed.
	secret []byte
	// tag identifies the form in its digests. It is a sum over the selections, 0 for the zero Form.
	tag uint64
}

// Problem is an error in one path.
type Problem struct {
	// List is the number of the list: 0 for the change key, 1 for the ignored members.
	List  int
	Index int
	// Message is the right form.
	Message string
}

// Parse parses the paths of a change key and of ignored members. Nothing selected by an ignored
// path is compared, even if the key selects it. An empty key selects the whole document. Paths
// beyond MaxPaths are left out.
func Parse(key, ignore []string) (Form, []Problem) {
	var f Form
	var bad []Problem
	for list, texts := range [][]string{key, ignore} {
		for i, text := range texts[:min(len(texts), MaxPaths)] {
			path, err := jsonpath.Parse(text)
			if err != nil {
				bad = append(bad, Problem{
					List:    list,
					Index:   i,
					Message: err.Error(),
				})
				continue
			}
			if list == 0 {
				f.key = append(f.key, path)
				f.tag += runs.Digest(fmt.Appendf(nil, "key %d %s", i, text))
			} else {
				f.ignore = append(f.ignore, path)
				f.tag += runs.Digest([]byte("ignore " + text))
			}
		}
	}
	return f, bad
}

// Keyed returns the form with a key for its digests. Digests of answers that are stored without
// some of their parts must be keyed.
func (f Form) Keyed(secret []byte) Form {
	f.secret = secret
	f.tag += runs.Digest([]byte("keyed"))
	return f
}

// Ignoring returns the form with further ignored paths. A path that cannot be parsed is left out.
func (f Form) Ignoring(paths []string) Form {
	more, _ := Parse(nil, paths)
	f.ignore = append(slices.Clip(f.ignore), more.ignore...)
	f.tag += more.tag
	return f
}

// HasKey reports whether a change key selects what is compared.
func (f Form) HasKey() bool { return len(f.key) > 0 }

// errForm is returned if an answer has no canonical form, because it is no JSON or exceeds a limit.
var errForm = errors.New("the answer has no canonical form")

// Digest returns the digest of the compared part of a body, and 0 for an empty body. Digests of two
// forms are not comparable, see [runs.Comparable]. A body without a canonical form is compared byte
// by byte. The members are those left to compare; they are nil
// without a canonical form, under a change key, and if there are too many.
func (f Form) Digest(body []byte, b *budget.Budget) (digest uint64, members []Member) {
	if len(body) == 0 {
		return 0, nil
	}
	doc, text, err := f.canonical(body, b)
	if err != nil {
		return f.sum(body), nil
	}
	if !f.HasKey() {
		members = f.membersOf(doc, b)
	}
	return f.sum(text), members
}

// sum returns the digest of a text: never 0, because 0 means that there is none.
func (f Form) sum(text []byte) uint64 {
	tag := uint16((f.tag ^ f.tag>>32) ^ (f.tag^f.tag>>32)>>16)
	if f.secret == nil {
		return runs.Tagged(runs.Digest(text), tag)
	}
	mac := hmac.New(sha256.New, f.secret)
	mac.Write(text)
	return runs.Tagged(binary.BigEndian.Uint64(mac.Sum(nil)), tag)
}

// canonical returns a body without its ignored members and the canonical form of the compared part.
func (f Form) canonical(body []byte, b *budget.Budget) (*jsonpath.Document, []byte, error) {
	if !looksLikeJSON(body) {
		return nil, nil, errForm
	}
	doc, err := jsonpath.Read(body, b)
	if err != nil {
		return nil, nil, errForm
	}
	for _, path := range f.ignore {
		if _, err := path.Replace(doc, b, omitted{}); err != nil {
			return nil, nil, errForm
		}
	}
	w := writer{
		out:    make([]byte, 0, len(body)),
		budget: b,
	}
	if !f.HasKey() {
		w.value(doc.Root())
		return doc, w.out, w.err
	}
	for i, path := range f.key {
		w.out = fmt.Appendf(w.out, "%d:", i)
		err := path.Each(doc, b, func(value any) bool {
			w.value(value)
			return w.err == nil
		})
		if err = errors.Join(err, w.err); err != nil {
			return nil, nil, errForm
		}
	}
	return doc, w.out, nil
}

// looksLikeJSON reports whether a body begins like an object or a list. Every other body, JSON
// texts and numbers included, is its own canonical form, so that it need not be decoded.
func looksLikeJSON(body []byte) bool {
	for _, c := range body {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{' || c == '['
		}
	}
	return false
}
