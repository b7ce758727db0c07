package zombie

import "time"

// poisonRest is for how long a row that could not be mended is passed over: those behind it come first.
const poisonRest = time.Minute

// poison is the rows that could not be mended of late.
type poison struct {
	until map[[16]byte]time.Time
}

func newPoison() *poison { return &poison{until: map[[16]byte]time.Time{}} }

func (p *poison) add(id [16]byte, now time.Time) { p.until[id] = now.Add(poisonRest) }

// rows returns what is to be passed over.
func (p *poison) rows(now time.Time) [][16]byte {
	list := [][16]byte{}
	for id, until := range p.until {
		if now.Before(until) {
			list = append(list, id)
		} else {
			delete(p.until, id)
		}
	}
	return list
}
