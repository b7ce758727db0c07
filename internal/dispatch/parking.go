package dispatch

import "slices"

// parking holds the claims that wait for a host. Tenants take turns: who has hundreds here must not keep one who has a single claim waiting
// for all of them. Its zero value is empty. It is not safe for concurrent use.
type parking struct {
	lines map[[16]byte]*fifo
	turns [][16]byte // the tenants with claims here, the next one first
	size  int
}

func (p *parking) push(w *waiting) {
	tenant := w.target.TenantID
	line := p.lines[tenant]
	if line == nil {
		if p.lines == nil {
			p.lines = map[[16]byte]*fifo{}
		}
		line = new(fifo)
		p.lines[tenant] = line
		p.turns = append(p.turns, tenant)
	}
	line.push(w)
	p.size++
}

// pop takes out a claim of the next tenant that may go ahead, nil where none may.
func (p *parking) pop(may func(tenant [16]byte) bool) *waiting {
	next := slices.IndexFunc(p.turns, may)
	if next < 0 {
		return nil
	}
	tenant := p.turns[next]
	p.turns = slices.Delete(p.turns, next, next+1)
	line := p.lines[tenant]
	w := line.pop()
	if p.size--; line.size() > 0 {
		p.turns = append(p.turns, tenant)
	} else {
		delete(p.lines, tenant)
	}
	return w
}

func (p *parking) clear() (list []*waiting) {
	for _, tenant := range p.turns {
		list = append(list, p.lines[tenant].clear()...)
	}
	*p = parking{}
	return list
}
