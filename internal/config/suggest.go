package config

import (
	"fmt"
	"strings"
)

// misnamed returns a sentence for every unknown name, with the name that was probably meant.
func misnamed(unknown []string) []string {
	problems := make([]string, 0, len(unknown))
	for _, name := range unknown {
		problem := name + " is not a setting"
		if near := nearest(name); near != "" {
			problem += fmt.Sprintf("; did you mean %s?", near)
		}
		problems = append(problems, problem)
	}
	return problems
}

// nearest returns the known name that differs least, or nothing where more than a third of its letters would be wrong.
func nearest(name string) string {
	own := strings.TrimPrefix(name, prefix)
	best, least := "", len(own)/3+1
	for _, s := range settings() {
		if d := distance(own, strings.TrimPrefix(s.Name, prefix)); d < least {
			best, least = s.Name, d
		}
	}
	return best
}

// distance returns how many single letters must be added, dropped or changed to make b of a. It fills the classic table one row at
// a time: row[j] is the distance between what was read of a and the first j letters of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
