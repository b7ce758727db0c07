package bench

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress shows the progress of a bench: bars on a terminal, otherwise short lines.
type Progress struct {
	Out      io.Writer // nil: no output
	Terminal bool

	begun time.Time
	shown bool // a bar stands on the current line
}

// barWidth is the width of a full bar in characters.
const barWidth = 30

// Say writes a line.
func (p *Progress) Say(format string, args ...any) {
	if p == nil || p.Out == nil {
		return
	}
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	p.clear()
	_, _ = fmt.Fprintf(p.Out, "%6.1fs  %s\n", time.Since(p.begun).Seconds(), fmt.Sprintf(format, args...))
}

// bar shows the completed share of a task, on a terminal only.
func (p *Progress) bar(what string, done, total int) {
	if p == nil || p.Out == nil || !p.Terminal || total <= 0 {
		return
	}
	full := min(done, total) * barWidth / total
	_, _ = fmt.Fprintf(p.Out, "\r\x1b[K         %s%s %d/%d %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), done, total, what)
	p.shown = true
}

// clear erases the bar.
func (p *Progress) clear() {
	if p.shown {
		_, _ = fmt.Fprint(p.Out, "\r\x1b[K")
		p.shown = false
	}
}
