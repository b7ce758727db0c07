package config

import (
	"fmt"
	"strings"

	"rubato/internal/errs"
)

// misnamed returns a sentence for every unknown name, with the most similar setting.
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

// nearest returns the setting with the smallest edit distance to a name, or "" if more than a third
// of the letters differ. For a name with FileSuffix the result has it too.
func nearest(name string) string {
	if setting, file := strings.CutSuffix(name, FileSuffix); file {
		if near := nearest(setting); near != "" {
			return near + FileSuffix
		}
	}
	own := strings.TrimPrefix(name, prefix)
	best, least := "", len(own)/3+1
	for _, s := range settings() {
		if d := errs.Distance(own, strings.TrimPrefix(s.Name, prefix)); d < least {
			best, least = s.Name, d
		}
	}
	return best
}
