package secrets

import (
	"regexp"
	"slices"
)

var (
	actionPattern = regexp.MustCompile(`(?s)\{\{.*?\}\}`)
	namedPattern  = regexp.MustCompile("\\bsecret\\s+(?:\"([^\"]*)\"|`([^`]*)`)")
)

// Names returns the names of the secrets that a text refers to as {{secret "name"}}, sorted, each once.
func Names(text string) []string {
	var names []string
	for _, action := range actionPattern.FindAllString(text, -1) {
		for _, found := range namedPattern.FindAllStringSubmatch(action, -1) {
			names = append(names, found[1]+found[2])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
