package endpoints

import (
	"fmt"
	"strconv"
	"strings"
	"unique"
)

// SuccessRule is the set of status codes that count as success. Equal rules share memory, because a
// worker caches one per endpoint and most are equal. Its zero value is not usable; call
// [ParseSuccess].
type SuccessRule struct {
	codes unique.Handle[statusSet]
}

// statusSet is a bit set of status codes.
type statusSet [maxStatus/64 + 1]uint64

const maxStatus = 599

// ParseSuccess parses a comma-separated list of status codes and classes, such as "2xx,304".
func ParseSuccess(text string) (SuccessRule, error) {
	var codes statusSet
	for part := range strings.SplitSeq(text, ",") {
		from, to, ok := statusRange(strings.TrimSpace(part))
		if !ok {
			return SuccessRule{}, fmt.Errorf("%q is neither a status code (100 to 599) nor a class (1xx to 5xx)", part)
		}
		for code := from; code <= to; code++ {
			codes[code/64] |= 1 << (code % 64)
		}
	}
	return SuccessRule{codes: unique.Make(codes)}, nil
}

// Match reports whether a status code counts as success.
func (r SuccessRule) Match(status int) bool {
	return status >= 0 && status <= maxStatus && r.codes.Value()[status/64]&(1<<(status%64)) != 0
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
