// Package budget bounds the work that one answer of a target may cause. Searches by JSONPath, patterns and expressions draw from one sum of
// steps, and stop when the run ends. It is pure.
package budget

import (
	"errors"
	"fmt"
)

const (
	// Steps is what judging and redacting one answer may take. A step is about what looking at one value of a document takes, 30 ns.
	Steps = 4_000_000
	// interval is how many steps may pass between two looks at whether the run has ended.
	checkInterval = 4096
)

var (
	// ErrSpent is the end of a budget.
	ErrSpent = fmt.Errorf("the rules and redactions of the endpoint take more than %d steps for this answer together", Steps)
	// ErrEnded is the end of the run to which the answer belongs.
	ErrEnded = errors.New("the run was over (maxExecutionTimeMs) before its answer was judged")
)

// Budget is what is left for one answer. It is not safe for concurrent use. A nil Budget has no bound.
type Budget struct {
	left  int // below zero: spent
	until int // steps before the next look at done
	done  <-chan struct{}
	err   error // once there is one, it stays
}

// New returns a budget of [Steps] that ends when done is closed; nil: never.
func New(done <-chan struct{}) *Budget { return &Budget{left: Steps, until: checkInterval, done: done} }

// Over returns a budget that has ended, because of err.
func Ended(err error) *Budget { return &Budget{err: err} }

// Another returns a full budget for the same run, such as for the words about a verdict.
func (b *Budget) Renewed() *Budget {
	if b == nil {
		return nil
	}
	if b.err != nil && !errors.Is(b.err, ErrSpent) {
		return Ended(b.err)
	}
	return New(b.done)
}

// Spend takes steps. The error is [ErrSpent], [ErrEnded] or what [Over] was given; then the work must stop, and what it found must not count.
func (b *Budget) Spend(steps int) error {
	if b == nil || b.err != nil {
		return b.Err()
	}
	b.left -= steps
	if b.left < 0 {
		b.err = ErrSpent
		return b.err
	}
	if b.until -= steps; b.until < 0 {
		b.until = checkInterval
		select {
		case <-b.done:
			b.err = ErrEnded
		default:
		}
	}
	return b.err
}

// Err returns why a step was refused, or nil.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}

// Left returns how many steps are left.
func (b *Budget) Remaining() int {
	switch {
	case b == nil:
		return Steps
	case b.err != nil:
		return 0
	default:
		return max(b.left, 0)
	}
}
