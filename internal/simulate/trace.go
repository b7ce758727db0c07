package simulate

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// trace reads recorded changes from a file with one per line: an RFC 3339 instant or a number of
// seconds. Empty lines and lines that begin with # are skipped.
func (o *object) trace(open func(name string) ([]byte, error)) trace {
	name, path := o.text("file"), o.at("file")
	if name == "" {
		o.add(path, codeRequired, "must name a file with one change per line: an RFC 3339 instant or a number of seconds")
		return trace{}
	}
	text, err := open(filepath.FromSlash(name))
	if err != nil {
		o.add(path, codeValue, err.Error())
		return trace{}
	}
	var list []time.Duration
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		at, err := readChange(line)
		if err != nil {
			o.add(path, codeValue, fmt.Sprintf("line %d: %s", i+1, err))
			return trace{}
		}
		list = append(list, at)
	}
	if len(list) == 0 {
		o.add(path, codeValue, "contains no change")
		return trace{}
	}
	slices.Sort(list)
	first := list[0]
	for i := range list {
		list[i] -= first
	}
	if list[len(list)-1] > longest {
		o.add(path, codeRange, "must span at most 366d")
	}
	return trace{list}
}

// readChange reads the time of a change since 1970.
func readChange(text string) (time.Duration, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return time.Duration(at.UnixMilli()) * time.Millisecond, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n < 7e9) { // Until 2191, so that nanoseconds do not overflow.
		return 0, fmt.Errorf("must be an RFC 3339 instant or a number of seconds from 0, not %q", text)
	}
	return time.Duration(n * float64(time.Second)), nil
}

// item returns the path of an item of a list.
func item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
