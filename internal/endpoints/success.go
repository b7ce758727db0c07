package endpoints

import (
	"fmt"
	"strconv"
	"strings"
)

// SuccessRule is the set of status codes that count as success.
type SuccessRule struct {
	codes [600]bool
}

// ParseSuccess reads a comma-separated list of status codes and classes, such as "2xx,304".
func ParseSuccess(text string) (*SuccessRule, error) {
	var rule SuccessRule
	for part := range strings.SplitSeq(text, ",") {
		from, to, ok := statusRange(strings.TrimSpace(part))
		if !ok {
			return nil, fmt.Errorf("%q is neither a status code (100 to 599) nor a class (1xx to 5xx)", part)
		}
		for code := from; code <= to; code++ {
			rule.codes[code] = true
		}
	}
	return &rule, nil
}

// Match reports whether a status code counts as success.
func (r *SuccessRule) Match(status int) bool {
	return status >= 0 && status < len(r.codes) && r.codes[status]
}

func statusRange(part string) (from, to int, ok bool) {
	if len(part) != 3 || part[0] < '1' || part[0] > '5' {
		return 0, 0, false
	}
	if part[1:] == "xx" {
		from = int(part[0]-'0') * 100
		return from, from + 99, true
	}
	code, err := strconv.Atoi(part)
	return code, code, err == nil && code >= 100
}
