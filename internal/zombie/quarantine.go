package zombie

import "time"

// quarantineTime is how long a row that failed is skipped, so that later rows are processed first.
const quarantineTime = time.Minute

// quarantine holds the IDs of rows that failed recently (poison rows). Only the passes use it.
type quarantine struct {
	until map[[16]byte]time.Time
}

func newQuarantine() *quarantine { return &quarantine{until: map[[16]byte]time.Time{}} }

func (p *quarantine) add(id [16]byte, now time.Time) { p.until[id] = now.Add(quarantineTime) }

// rows returns the IDs to skip.
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
