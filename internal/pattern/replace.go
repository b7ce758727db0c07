package pattern

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"

	"rubato/internal/budget"
)

// passes is how often all of a program may be looked at for each byte of a text while matches are replaced. One search through all of it needs
// three at most: an instruction is come to from two others, and then left.
const replaceFactor = 3

// Replace returns a text with each match replaced by what with returns, as [regexp.Regexp.ReplaceAllFunc] does. It is bounded where that is not:
// a search may look at all that follows a match before it knows where the match ends, and the next one begins right after it. Where replacing would
// take longer than a few searches through the whole text, or than the budget allows, ok is false, and nothing can be said about what the
// pattern finds.
func (p *Pattern) Replace(text []byte, b *budget.Budget, with func(found []byte) []byte) (out []byte, ok bool) {
	if b.Spend(searchSteps) != nil {
		return nil, false
	}
	m := &matcher{
		prog: p.prog, prefix: p.prefix, text: text, start: p.prog.StartCond(), left: replaceFactor * p.steps * (len(text) + MaxBytes),
		now: newQueue(len(p.prog.Inst)), next: newQueue(len(p.prog.Inst)), budget: b,
	}
	m.charged = m.left
	end := 0 // of the last match
	for at := 0; at <= len(text); {
		from, to, found := m.find(at)
		m.charge(stepsPerBudgetStep)
		if m.left < 0 {
			return nil, false
		}
		if !found {
			break
		}
		out = append(out, text[end:from]...)
		if to > end || from == 0 { // No empty match right after another match.
			out = append(out, with(text[from:to])...)
		}
		end = to
		_, width := utf8.DecodeRune(text[at:])
		at = max(to, at+max(width, 1))
	}
	if out == nil && end == 0 {
		return text, true
	}
	return append(out, text[end:]...), true
}

// machine looks for one program in one text, as package regexp does where it neither goes back nor knows a single way: all threads advance a
// character at a time, in the order of what they prefer. It differs in that it counts what it does.
type matcher struct {
	prog      *syntax.Prog
	prefix    []byte
	text      []byte
	start     syntax.EmptyOp // what must hold where a match begins
	left      int            // steps that may still be taken; below zero the search is over and its result means nothing
	now, next *queue
	budget    *budget.Budget
	charged   int // left when the budget was charged last
}

const (
	// searchSteps is what a search takes of a budget however short the text is.
	searchSteps = 8
	// settleSteps is how many steps of a program are one step of a budget.
	stepsPerBudgetStep = 32
	// settleEvery is how many steps a search may take before it charges the budget and hears whether the run has ended.
	chargeInterval = stepsPerBudgetStep << 10
)

// settle charges the budget once a search has taken so many steps.
func (m *matcher) charge(every int) {
	taken := m.charged - m.left
	if taken < every || m.left < 0 {
		return
	}
	if m.budget.Spend(taken/stepsPerBudgetStep) != nil {
		m.left = -1
	}
	m.charged = m.left
}

// thread is a place in the program with where its match began.
type thread struct {
	pc   uint32
	from int
}

// queue is a set of threads with an order, one for each instruction at most.
type queue struct {
	sparse []uint32
	dense  []thread
}

func newQueue(size int) *queue {
	return &queue{sparse: make([]uint32, size), dense: make([]thread, 0, size)}
}

func (q *queue) has(pc uint32) bool {
	i := q.sparse[pc]
	return int(i) < len(q.dense) && q.dense[i].pc == pc
}

// find returns the leftmost match that begins at a place or after it, and of those the one that the pattern prefers.
func (m *matcher) find(at int) (from, to int, found bool) {
	m.now.dense = m.now.dense[:0]
	for m.left >= 0 {
		m.charge(chargeInterval)
		if len(m.now.dense) == 0 {
			if found || m.start&syntax.EmptyBeginText != 0 && at != 0 {
				break
			}
			skip := bytes.Index(m.text[at:], m.prefix)
			if skip < 0 {
				break
			}
			at += skip
		}
		before, _ := utf8.DecodeLastRune(m.text[:at])
		if at == 0 {
			before = -1
		}
		here, width := m.rune(at)
		if !found {
			m.add(m.now, thread{uint32(m.prog.Start), at}, syntax.EmptyOpContext(before, here)) //nolint:gosec // Of a bounded program.
		}
		after, _ := m.rune(at + width)
		if began, ended := m.step(here, syntax.EmptyOpContext(here, after)); ended {
			from, to, found = began, at, true
		}
		if m.now, m.next = m.next, m.now; width == 0 {
			break
		}
		at += width
	}
	return from, to, found
}

// rune returns the character at a place and its width; -1 and 0 at the end.
func (m *matcher) rune(at int) (rune, int) {
	if at >= len(m.text) {
		return -1, 0
	}
	if c := m.text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRune(m.text[at:])
}

// step moves all threads over a character, to where conditions hold. ended reports that a match ends before the character, and from is where it
// began; threads that it is preferred to are gone.
func (m *matcher) step(here rune, holds syntax.EmptyOp) (from int, ended bool) {
	m.next.dense = m.next.dense[:0]
	m.left -= len(m.now.dense)
	for _, t := range m.now.dense {
		inst := &m.prog.Inst[t.pc]
		if inst.Op == syntax.InstMatch {
			return t.from, true
		}
		if here >= 0 && consumes(inst, here) {
			m.add(m.next, thread{inst.Out, t.from}, holds)
		}
	}
	return 0, false
}

// moves reports whether an instruction takes a character.
func consumes(inst *syntax.Inst, here rune) bool {
	switch inst.Op {
	case syntax.InstRune:
		return inst.MatchRune(here)
	case syntax.InstRune1:
		return here == inst.Rune[0]
	case syntax.InstRuneAny:
		return true
	case syntax.InstRuneAnyNotNL:
		return here != '\n'
	default:
		return false
	}
}

// add puts a thread into a queue, with all that it comes to without a character.
func (m *matcher) add(q *queue, t thread, holds syntax.EmptyOp) {
	for {
		if m.left--; q.has(t.pc) {
			return
		}
		q.sparse[t.pc] = uint32(len(q.dense)) //nolint:gosec // Of a bounded program.
		q.dense = append(q.dense, t)
		inst := &m.prog.Inst[t.pc]
		switch inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			m.add(q, thread{inst.Out, t.from}, holds)
			t.pc = inst.Arg
		case syntax.InstEmptyWidth:
			if inst.Arg&^uint32(holds) != 0 {
				return
			}
			t.pc = inst.Out
		case syntax.InstCapture, syntax.InstNop:
			t.pc = inst.Out
		default:
			return
		}
	}
}
