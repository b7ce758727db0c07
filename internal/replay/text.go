package replay

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteText writes the report for people.
func (r *Report) WriteText(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d decisions after runs and %d after changes of %d endpoints were made again.\n", r.Runs, r.Changes, r.Endpoints)
	for _, l := range r.Late {
		if l.Since.IsZero() {
			fmt.Fprintf(&b, "%s has no state on record and was left out.\n", l.EndpointID)
			continue
		}
		fmt.Fprintf(&b, "%s was replayed since %s, where its ledger begins.\n", l.EndpointID, l.Since.Format(time.RFC3339Nano))
	}
	if d := r.Difference; d != nil {
		d.write(&b)
	} else {
		b.WriteString("Each is as recorded.\n")
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// write writes the place and both values of a difference.
func (d *Difference) write(b *strings.Builder) {
	fmt.Fprintf(b, "The first difference: endpoint %s, ", d.EndpointID)
	switch {
	case d.RunID != "":
		fmt.Fprintf(b, "after run %s at %s", d.RunID, d.At.Format(time.RFC3339Nano))
	case d.DecisionID != 0:
		fmt.Fprintf(b, "decision %d (%s) at %s", d.DecisionID, d.Cause, d.At.Format(time.RFC3339Nano))
	default:
		b.WriteString("its schedule now")
	}
	fmt.Fprintf(b, "\n  %s\n    recorded:   %s\n    recomputed: %s\n", d.Field, d.Recorded, d.Recomputed)
}
