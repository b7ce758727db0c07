package audit

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteCard writes the report as Markdown: the figures, a row per invariant, and the evidence of
// each breach.
func (r Report) WriteCard(w io.Writer) error {
	var b strings.Builder
	c := r.Counts
	fmt.Fprintf(&b, "Audited %s, due times from %s on.\n\n", clock(r.AuditedAt), clock(r.Since))
	b.WriteString("| figure | value |\n| --- | --- |\n")
	for _, row := range [][2]string{
		{"endpoints", fmt.Sprint(c.Endpoints)},
		{"starts", fmt.Sprint(c.Starts) + statuses(c.Statuses)},
		{"live now", fmt.Sprint(c.Live)},
		{"requests seen by targets", fmt.Sprint(c.Requests)},
		{"duplicate requests", fmt.Sprint(c.Duplicates)},
		{"due times neither run nor recorded", fmt.Sprint(r.Check(NoLostDueTime).Breaches)},
		{"false reaps", fmt.Sprint(r.Check(NoFalseReap).Breaches)},
		{"overlaps, of them with a frozen worker", fmt.Sprintf("%d, %d", c.Overlaps, c.Excused)},
		{"answers after a settlement, which changed nothing", fmt.Sprint(c.LateAnswers)},
		{"lateness of starts", r.Lateness.String()},
		{"lost runs, from start to settlement", c.Settled.String()},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
	}
	b.WriteString("\n| promise | checked | breaches |\n| --- | --- | --- |\n")
	for _, check := range r.Checks {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", check.Promise, check.looked(), check.breached())
	}
	for _, check := range r.Checks {
		check.evidence(&b)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the card: %w", err)
	}
	return nil
}

// String formats the distribution on one line.
func (l Lateness) String() string {
	if l.N == 0 {
		return "none"
	}
	return fmt.Sprintf("p50 %d ms, p90 %d ms, p99 %d ms, max %d ms of %d", l.P50, l.P90, l.P99, l.Max, l.N)
}

func (c Check) looked() string {
	if c.Checked == 0 {
		return "not checked"
	}
	return fmt.Sprint(c.Checked)
}

func (c Check) breached() string {
	if c.Breaches == 0 {
		return "0"
	}
	return fmt.Sprintf("**%d**", c.Breaches)
}

func (c Check) evidence(b *strings.Builder) {
	if c.Breaches == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s: %d breaches.\n\n", c.Invariant, c.Breaches)
	for _, f := range c.Findings {
		fmt.Fprintf(b, "- %s: %s\n", cmp.Or(strings.TrimSpace(f.EndpointID+" "+f.RunID), "the database"), f.Detail)
	}
	if more := c.Breaches - len(c.Findings); more > 0 {
		fmt.Fprintf(b, "- and %d more\n", more)
	}
}

// statuses formats the number of runs per status, the most frequent first.
func statuses(counts map[string]int) string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(counts[y]-counts[x], strings.Compare(x, y)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, counts[name])
	}
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}
