package zombie

import "time"

// poisonRest is for how long a row that could not be mended is passed over: those behind it come first.
const quarantineTime = time.Minute

// poison is the rows that could not be mended of late.
type quarantine struct {
	until map[[16]byte]time.Time
}

func newQuarantine() *quarantine { return &quarantine{until: map[[16]byte]time.Time{}} }

func (p *quarantine) add(id [16]byte, now time.Time) { p.until[id] = now.Add(quarantineTime) }

// rows returns what is to be passed over.
func (p *quarantine) rows(now time.Time) [][16]byte {
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
