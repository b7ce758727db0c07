package endpoints

import (
	"regexp"
	"slices"
	"strings"

	"rubato/internal/errs"
)

// chainScheme begins the URL of an endpoint that starts a chain.
const chainScheme = "chain:"

// codeNotForChains is the error code of a field that only an HTTP request has.
const codeNotForChains = "not_for_chains"

var chainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// IsChainName reports whether a text has the form of the name of a chain.
func IsChainName(name string) bool { return chainName.MatchString(name) }

// ChainURL returns the URL that stands for a chain, by its name or by the ID of one of its runs.
func ChainURL(of string) string { return chainScheme + of }

// ChainOf returns what follows chain: in a URL. is is false for the URL of an HTTP target.
func ChainOf(url string) (of string, is bool) { return strings.CutPrefix(url, chainScheme) }

// StartsChain reports whether runs of the endpoint start a chain in place of an HTTP request.
func (s *Spec) StartsChain() bool {
	_, is := ChainOf(s.URL)
	return is
}

// checkChain checks the request of an endpoint that starts a chain. Its body is the input, and what
// only an HTTP request has is refused.
func checkChain(s *Spec) (bad []errs.Field) {
	refuse := func(field, code, message string) {
		bad = append(bad, errs.Field{
			Field:   field,
			Code:    code,
			Message: message,
		})
	}
	if name, _ := ChainOf(s.URL); !IsChainName(name) {
		refuse("url", "invalid_value", "must be chain: and the name of a chain, such as chain:order")
	}
	if s.Method != "POST" {
		refuse("method", "invalid_value", "must be POST, because the endpoint starts a chain")
	}
	for field, given := range map[string]bool{
		"headers": len(s.Headers) > 0, "query": len(s.Query) > 0, "auth": s.Auth != nil, "tls": s.TLS != nil, "sign": s.Sign,
		"followRedirects": s.FollowRedirects > 0, "async.timeoutMs": s.Async.Timeout > 0,
	} {
		if given {
			refuse(field, codeNotForChains, "must be left out, because a chain gets only the body as its input, and has its own timeoutMs")
		}
	}
	slices.SortFunc(bad, func(a, b errs.Field) int { return strings.Compare(a.Field, b.Field) })
	return bad
}

// ChainOutcome is the outcome of a run, after which an endpoint may start a chain.
type ChainOutcome string

// The outcomes. A run that is tried again has none yet.
const (
	OutcomeSucceeded ChainOutcome = "succeeded"
	OutcomeFailed    ChainOutcome = "failed"
	// OutcomeChanged is a success whose answer differs from the one before. The store compares them
	// when it starts the chain.
	OutcomeChanged ChainOutcome = "changed"
)

// ChainStart is a chain that a run starts, with the outcome that starts it.
type ChainStart struct {
	Outcome ChainOutcome
	Chain   string
}

// parseChainStart parses an entry of startChains.
func parseChainStart(text string) (start ChainStart, valid bool) {
	outcome, chain, _ := strings.Cut(text, "=")
	start = ChainStart{ChainOutcome(outcome), chain}
	return start, slices.Contains([]ChainOutcome{OutcomeSucceeded, OutcomeFailed, OutcomeChanged}, start.Outcome) && IsChainName(chain)
}

// checkStarts checks the chains that runs start.
func checkStarts(s *Spec) []errs.Field {
	valid := func(text string) bool {
		_, valid := parseChainStart(text)
		return valid
	}
	return checkList("startChains", s.StartChains, valid, "succeeded, failed or changed, then = and the name of a chain, such as failed=cleanup")
}

// chainStarts returns the chains that a run starts that is not repeated.
func (s *Spec) chainStarts(run Finished) (list []ChainStart) {
	for _, text := range s.StartChains {
		start, valid := parseChainStart(text)
		if valid && run.had(start.Outcome) {
			list = append(list, start)
		}
	}
	return list
}

// had reports whether a run that is not repeated had an outcome.
func (f Finished) had(o ChainOutcome) bool {
	switch o {
	case OutcomeSucceeded:
		return f.Verdict == Success
	case OutcomeFailed:
		return f.Verdict == Failure
	case OutcomeChanged:
		return f.Verdict == Success && !f.Unchanged && f.Digest != 0
	}
	return false
}
