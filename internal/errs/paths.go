package errs

// Paths is a set of the paths of fields. It is a set, because an input may have tens of thousands
// of invalid members and each is looked up.
type Paths map[string]bool

// PathsOf returns the paths of invalid fields.
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
