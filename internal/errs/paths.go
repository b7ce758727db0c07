package errs

// Paths is a set of the paths of fields. An input may have tens of thousands of bad members, so whoever looks for one among them uses a set.
type Paths map[string]bool

// PathsOf returns the paths of some bad fields.
func PathsOf(lists ...[]Field) Paths {
	set := Paths{}
	for _, list := range lists {
		for _, f := range list {
			set[f.Field] = true
		}
	}
	return set
}

// Cover reports whether the set holds a path, or an object or array around it.
func (s Paths) Cover(path string) bool {
	for i, c := range path {
		if (c == '.' || c == '[') && s[path[:i]] {
			return true
		}
	}
	return s[path]
}
