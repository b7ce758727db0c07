// Package pattern compiles the regular expressions (RE2) that users write, and bounds what looking for them takes. A few bytes can stand for a
// program of hundreds of thousands of instructions, each of which may be looked at for every byte of a text, and nothing can stop a search once
// it has begun. So it is the program that is bounded, not the text that it is written in. It is pure.
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
	// MaxBytes is how long a pattern may be.
	MaxBytes = 1024
	// MaxSteps is how many steps one pattern may have. What people write has 10 to 130; a step takes about 5 ns for each byte of a text.
	MaxSteps = 200
	// MaxTotal is how many steps the patterns of one endpoint may have together: the worst of them take about a tenth of a second for 64 KiB.
	MaxTotal = 300

	// largeClass is the size of a class of characters that is slow to search, and counts as two steps: that of \pL, not that of \w.
	largeClass = 64
	// foldedRange is what a range between characters outside ASCII counts where case is ignored: each character in it is folded when the pattern
	// is parsed, which takes as long as compiling so many instructions.
	foldedRange = 10
)

// Pattern is a regular expression that is bounded. It is safe for concurrent use.
type Pattern struct {
	re     *regexp.Regexp
	prog   *syntax.Prog
	prefix []byte // what every match begins with; empty: nothing is known
	steps  int
}

// Steps returns what the pattern counts.
func (p *Pattern) Steps() int { return p.steps }

// MatchString reports whether the pattern is found anywhere in a text. It takes at most about as many steps for each byte as the pattern has,
// and takes these from the budget beforehand. Where that is not enough it returns false.
func (p *Pattern) MatchString(text string, b *budget.Budget) bool {
	return b.Spend(searchSteps+p.steps*len(text)/stepsPerBudgetStep) == nil && p.re.MatchString(text)
}

// Budget is what the patterns of one endpoint may take together. The zero value is all of it.
type Budget struct{ spent int }

// Compile compiles a pattern and takes its steps from the budget. The error says in words what would be right, and takes nothing.
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

// advice is what makes a pattern smaller.
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
	if rough := estimateSteps(tree); rough > 4*MaxSteps { // Counting would take the memory that is not to be taken.
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
	return &Pattern{re: re, prog: prog, prefix: []byte(prefix), steps: steps}, nil
}

func tooLarge(steps int) error {
	return fmt.Errorf("must have at most %d steps when it is compiled, and has about %d; %s", MaxSteps, steps, advice)
}

// ignoresCase finds a group that ignores case, and wideRange a range up to a character that may lie far outside of ASCII.
var (
	ignoresCase = regexp.MustCompile(`\(\?[a-zA-Z]*i`)
	wideRange   = regexp.MustCompile(`-(?:\\x\{|[^\x00-\x7f])`)
)

// written returns the steps that a pattern counts for what makes parsing it slow: large classes by name and ranges whose case is ignored. Neither
// shows in the program.
func parseSteps(text string) int {
	steps := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	if ignoresCase.MatchString(text) {
		steps += foldedRange * len(wideRange.FindAllString(text, -1))
	}
	return steps
}

// instructions returns what a program counts.
func programSteps(prog *syntax.Prog) int {
	steps := len(prog.Inst)
	for i := range prog.Inst {
		if len(prog.Inst[i].Rune) > largeClass {
			steps++
		}
	}
	return steps
}

// estimate returns about how many instructions an expression will have, without writing its repetitions out.
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
