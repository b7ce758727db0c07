package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"rubato/internal/audit"
)

// scenario is one line of the guarantee card.
type scenario struct {
	Name       string       `json:"name"`
	Fault      string       `json:"fault"`      // the fault that was injected
	Fired      string       `json:"fired"`      // the evidence that the fault fired
	RecoveryMs int64        `json:"recoveryMs"` // from the end of the fault to the last start that was over a second late
	Rejected   int          `json:"rejected"`   // requests that the fence-checking target refused
	Report     audit.Report `json:"report"`
}

// guaranteeCards gathers the scenarios of a run.
type guaranteeCards struct {
	mu   sync.Mutex
	list []scenario
}

// deck is filled by every scenario and written at the end.
var deck guaranteeCards

func (c *guaranteeCards) add(s scenario) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, s)
}

// write prints the card. If path is set, it also writes the card there, and its JSON beside it.
func (c *guaranteeCards) write(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.list) == 0 {
		return nil
	}
	slices.SortFunc(c.list, func(x, y scenario) int { return strings.Compare(x.Name, y.Name) })
	text := c.markdown()
	fmt.Print(text)
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(c.list, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(path, ".md")+".json", data, 0o600)
}

func (c *guaranteeCards) markdown() string {
	var b strings.Builder
	b.WriteString("# Guarantee card\n\n")
	b.WriteString("| scenario | fault fired | starts | duplicates | lost due times | overlaps (excused) | false reaps | left running | lost, settled within | late p50 / p99 / max | recovery | breaches |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, s := range c.list {
		r := s.Report
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d (%d) | %d | %d | %d, %s | %s / %s / %s | %s | %d |\n",
			s.Name, s.Fired, r.Counts.Starts, r.Counts.Duplicates, r.Check(audit.NoLostDueTime).Breaches, r.Counts.Overlaps, r.Counts.Excused,
			r.Check(audit.NoFalseReap).Breaches, r.Counts.Live, r.Counts.Settled.N, ms(r.Counts.Settled.Max),
			ms(r.Lateness.P50), ms(r.Lateness.P99), ms(r.Lateness.Max), ms(s.RecoveryMs), r.Breaches())
	}
	b.WriteString("\n")
	return b.String()
}
