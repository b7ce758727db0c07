package pattern

import (
	"bytes"
	"regexp/syntax"
	"unicode/utf8"

	"rubato/internal/budget"
)

// replaceFactor bounds the work of Replace: how often the whole program may be visited per byte of
// a text. One search needs at most three, because an instruction is reached from two others and
// left once.
const replaceFactor = 3

// Replace replaces each match by the result of with, like [regexp.Regexp.ReplaceAllFunc], but in
// bounded time. That function may scan the rest of the text to find the end of each match. If the
// work exceeds a few full searches or the budget, ok is false and the result must not be used.
func (p *Pattern) Replace(text []byte, b *budget.Budget, with func(found []byte) []byte) (out []byte, ok bool) {
	if b.Spend(searchSteps) != nil {
		return nil, false
	}
	m := &matcher{
		prog:   p.prog,
		prefix: p.prefix,
		text:   text,
		start:  p.prog.StartCond(),
		left:   replaceFactor * p.steps * (len(text) + MaxBytes),
		now:    newQueue(len(p.prog.Inst)),
		next:   newQueue(len(p.prog.Inst)),
		budget: b,
	}
	m.charged = m.left
	end := 0 // end of the last match
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
		if to > end || from == 0 { // no empty match directly after a match
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

// matcher simulates the program's NFA over one text, like package regexp in its general case: all
// threads advance one character at a time, in order of preference. Unlike regexp it counts its
// steps.
type matcher struct {
	prog      *syntax.Prog
	prefix    []byte
	text      []byte
	start     syntax.EmptyOp // condition at the start of a match
	left      int            // remaining steps; negative: the result is invalid
	now, next *queue
	budget    *budget.Budget
	charged   int // left at the last charge
}

const (
	// searchSteps is the cost of a search of the shortest text, in budget steps.
	searchSteps = 8
	// stepsPerBudgetStep is the number of program steps per budget step.
	stepsPerBudgetStep = 32
	// chargeInterval is the number of program steps after which a search charges the budget and
	// checks whether the run has ended.
	chargeInterval = stepsPerBudgetStep << 10
)

// charge charges the budget for the steps taken since the last charge, if there are enough of them.
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

// thread is a position in the program with the start of its match.
type thread struct {
	pc   uint32
	from int
}

// queue is an ordered set of threads, at most one per instruction.
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

// find returns the leftmost match at or after a position, and of several the preferred one.
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
			m.add(m.now, thread{uint32(m.prog.Start), at}, syntax.EmptyOpContext(before, here))
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

// rune returns the character at a position and its width; -1 and 0 at the end.
func (m *matcher) rune(at int) (rune, int) {
	if at >= len(m.text) {
		return -1, 0
	}
	if c := m.text[at]; c < utf8.RuneSelf {
		return rune(c), 1
	}
	return utf8.DecodeRune(m.text[at:])
}

// step advances all threads over a character. ended reports that a match ends before it, and from
// is its start; threads with a lower preference are dropped.
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

// consumes reports whether an instruction accepts a character.
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

// add adds a thread to a queue, and all threads that it reaches without consuming a character.
func (m *matcher) add(q *queue, t thread, holds syntax.EmptyOp) {
	for {
		if m.left--; q.has(t.pc) {
			return
		}
		q.sparse[t.pc] = uint32(len(q.dense))
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
