// Package pattern compiles regular expressions (RE2) of users, and bounds the time of their
// searches. A few bytes can compile to a program of hundreds of thousands of instructions, and each
// may run for every byte of a text. A search cannot be interrupted. Therefore the size of the
// compiled program is bounded, not only that of the text. The package is pure.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"rubato/internal/budget"
)

const (
	// MaxBytes is the maximum length of a pattern.
	MaxBytes = 1024
	// MaxSteps is the maximum number of steps of one pattern. Typical patterns have 10 to 130. A
	// step takes about 5 ns per byte of a text.
	MaxSteps = 200
	// MaxTotal is the maximum number of steps of an endpoint's patterns together. The worst case
	// takes about a tenth of a second for 64 KiB.
	MaxTotal = 300

	// largeClass is the size from which a character class is slow and counts two steps. \pL exceeds
	// it, \w does not.
	largeClass = 64
	// foldedRange is the number of steps of a non-ASCII range in a case-insensitive pattern,
	// because the parser folds each character of it.
	foldedRange = 10
)

// Pattern is a bounded regular expression. It is safe for concurrent use.
type Pattern struct {
	re     *regexp.Regexp
	prog   *syntax.Prog
	prefix []byte // literal prefix of every match; empty: none
	steps  int
}

// Steps returns the number of steps of the pattern.
func (p *Pattern) Steps() int { return p.steps }

// MatchString reports whether a text contains a match. It takes at most about Steps per byte,
// charged to the budget in advance. If the budget does not suffice, it returns false.
func (p *Pattern) MatchString(text string, b *budget.Budget) bool {
	return b.Spend(searchSteps+p.steps*len(text)/stepsPerBudgetStep) == nil && p.re.MatchString(text)
}

// Budget is the quota of steps for the patterns of one endpoint. The zero value is the full quota.
type Budget struct{ spent int }

// Compile compiles a pattern and takes its steps from the budget. On an error it takes none; the
// error describes the right form.
func (b *Budget) Compile(text string) (*Pattern, error) {
	p, err := compile(text)
	if err != nil {
		return nil, err
	}
	if left := MaxTotal - b.spent; p.steps > left {
		return nil, fmt.Errorf("must fit beside the other patterns of the endpoint: together they may have %d steps, those before it leave %d, and it has %d; %s", MaxTotal, left, p.steps, advice)
	}
	b.spent += p.steps
	return p, nil
}

// advice describes how to make a pattern smaller.
const advice = "write shorter repetitions, such as + in place of {1,255}, and fewer alternatives"

func compile(text string) (*Pattern, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("must be at most %d bytes long", MaxBytes)
	}
	steps := parseSteps(text)
	if steps > MaxSteps {
		return nil, tooLarge(steps)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression (RE2): %w", errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	if rough := estimateSteps(tree); rough > 4*MaxSteps { // exact counting would allocate the memory that is to be limited
		return nil, tooLarge(steps + rough)
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression (RE2): %w", err)
	}
	if steps += programSteps(prog); steps > MaxSteps {
		return nil, tooLarge(steps)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("must be a regular expression (RE2): %w", err)
	}
	prefix, _ := re.LiteralPrefix()
	return &Pattern{
		re:     re,
		prog:   prog,
		prefix: []byte(prefix),
		steps:  steps,
	}, nil
}

func tooLarge(steps int) error {
	return fmt.Errorf("must have at most %d steps when it is compiled, and has about %d; %s", MaxSteps, steps, advice)
}

// ignoresCase finds a case-insensitive group. wideRange finds a range up to a non-ASCII character.
var (
	ignoresCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)
	wideRange   = regexp.MustCompile(`-(?:\\x\{|[^\x00-\x7f])`)
)

// parseSteps returns the steps for slow parsing: large named classes, and case-insensitive ranges.
// The program's size does not show them.
func parseSteps(text string) int {
	steps := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	if ignoresCase.MatchString(text) {
		steps += foldedRange * len(wideRange.FindAllString(text, -1))
	}
	return steps
}

// programSteps returns the steps of a program.
func programSteps(prog *syntax.Prog) int {
	steps := len(prog.Inst)
	for i := range prog.Inst {
		if len(prog.Inst[i].Rune) > largeClass {
			steps++
		}
	}
	return steps
}

// estimateSteps estimates the number of instructions without expanding repetitions.
func estimateSteps(tree *syntax.Regexp) int {
	sub := 0
	for _, s := range tree.Sub {
		sub += estimateSteps(s)
	}
	switch {
	case tree.Op == syntax.OpLiteral:
		return len(tree.Rune)
	case tree.Op == syntax.OpRepeat && tree.Max < 0:
		return max(tree.Min, 1)*sub + 1
	case tree.Op == syntax.OpRepeat:
		return tree.Max*sub + tree.Max - tree.Min
	case tree.Op == syntax.OpConcat:
		return sub
	default:
		return sub + 1
	}
}
