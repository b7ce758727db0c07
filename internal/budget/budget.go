// Package budget limits the work on one response of a target. JSONPath searches, patterns and
// expressions share one quota of steps, and stop when the run ends. The package is pure.
package budget

import (
	"errors"
	"fmt"
)

const (
	// Steps is the quota for judging and redacting one response. A step is about the cost of
	// visiting one value of a document, 30 ns.
	Steps = 4_000_000
	// checkInterval is the number of steps between checks whether the run has ended.
	checkInterval = 4096
)

var (
	// ErrSpent is returned if the quota is used up.
	ErrSpent = fmt.Errorf("the rules and redactions of the endpoint take more than %d steps for this answer together", Steps)
	// ErrEnded is returned if the run has ended.
	ErrEnded = errors.New("the run was over (maxExecutionTimeMs) before its answer was judged")
)

// Budget is the rest of the quota for one response. It is not safe for concurrent use. A nil Budget
// is unlimited.
type Budget struct {
	left  int // remaining steps; negative: used up
	until int // steps until the next check of done
	done  <-chan struct{}
	err   error // final error
}

// New returns a budget of [Steps] that ends when done is closed; nil: never.
func New(done <-chan struct{}) *Budget {
	return &Budget{
		left:  Steps,
		until: checkInterval,
		done:  done,
	}
}

// Ended returns a budget that fails with err.
func Ended(err error) *Budget { return &Budget{err: err} }

// Renewed returns a full budget for the same run, for example for the text of a verdict.
func (b *Budget) Renewed() *Budget {
	if b == nil {
		return nil
	}
	if b.err != nil && !errors.Is(b.err, ErrSpent) {
		return Ended(b.err)
	}
	return New(b.done)
}

// Spend takes steps from the budget. The error is [ErrSpent], [ErrEnded] or that of [Ended]. After
// an error the work must stop, and its result must not be used.
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

// Err returns the error of the budget, or nil.
func (b *Budget) Err() error {
	if b == nil {
		return nil
	}
	return b.err
}

// Remaining returns the number of remaining steps.
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
