package schedule

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// oracle computes occurrences by brute force: it reads the wall clock in every step of real time,
// and matches the fields of the expression by parsing their text again and again. It shares no code
// with the package.
type oracle struct {
	spec  Spec
	zone  *time.Location
	step  time.Duration
	texts []string
	cache map[string]bool
}

func newOracle(t require.TestingT, spec Spec) *oracle {
	zone, err := time.LoadLocation(spec.Zone)
	require.NoError(t, err)
	o := &oracle{spec: spec, zone: zone, step: time.Second, texts: strings.Fields(spec.Expression), cache: map[string]bool{}}
	if len(o.texts) == 5 {
		o.step = time.Minute
		o.texts = append([]string{"0"}, o.texts...)
	}
	return o
}

// firings returns every firing in (after, until], in which clocks must change by whole steps.
func (o *oracle) firings(after, until time.Time) []time.Time {
	even := strings.ContainsAny(o.texts[2], "*/")
	seen := map[time.Time]bool{}
	var all []time.Time
	start := after.Add(-26 * time.Hour).Truncate(time.Minute)
	previous := o.wall(start.Add(-o.step))
	for now := start; !now.After(until); now = now.Add(o.step) {
		wall := o.wall(now)
		fires := o.matches(wall) && (!seen[wall] || even || o.spec.Overlap == OverlapBoth)
		seen[wall] = true
		if expected := previous.Add(o.step); wall.After(expected) && o.spec.Gap != GapSkip && o.any(expected, wall) {
			fires = fires || !even || !o.any(wall, wall.Add(wall.Sub(expected)))
		}
		if fires && now.After(after) {
			all = append(all, now.UTC())
		}
		previous = wall
	}
	return all
}

// wall returns the reading of the wall clock, as an instant in UTC.
func (o *oracle) wall(instant time.Time) time.Time {
	l := instant.In(o.zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

// any reports whether a reading in [from, to) matches.
func (o *oracle) any(from, to time.Time) bool {
	for ; from.Before(to); from = from.Add(o.step) {
		if o.matches(from) {
			return true
		}
	}
	return false
}

func (o *oracle) matches(wall time.Time) bool {
	if !o.holds(o.texts[0], wall.Second(), 0, 59) || !o.holds(o.texts[1], wall.Minute(), 0, 59) ||
		!o.holds(o.texts[2], wall.Hour(), 0, 23) || !o.holds(o.texts[4], int(wall.Month()), 1, 12) {
		return false
	}
	dom, dow := o.texts[3], o.texts[5]
	inMonth, inWeek := o.dayInMonth(dom, wall), o.dayInWeek(dow, wall)
	if dom == "*" || dow == "*" {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// holds reports whether the value is in a list of numbers, ranges and steps.
func (o *oracle) holds(text string, value, low, high int) bool {
	key := text + "|" + strconv.Itoa(value) + "|" + strconv.Itoa(high)
	if known, ok := o.cache[key]; ok {
		return known
	}
	found := false
	for member := range strings.SplitSeq(text, ",") {
		span, step, stepped := strings.Cut(member, "/")
		from, to, ranged := strings.Cut(span, "-")
		first, last, every := low, high, 1
		if span != "*" {
			first, _ = strconv.Atoi(from)
			if ranged {
				last, _ = strconv.Atoi(to)
			} else if !stepped {
				last = first
			}
		}
		if stepped {
			every, _ = strconv.Atoi(step)
		}
		for v := first; v <= last; v += every {
			found = found || v == value
		}
	}
	o.cache[key] = found
	return found
}

func (o *oracle) dayInMonth(text string, wall time.Time) bool {
	for member := range strings.SplitSeq(text, ",") {
		last := time.Date(wall.Year(), wall.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		number, _ := strconv.Atoi(strings.Trim(member, "LW-"))
		switch {
		case member == "LW":
			number = last
			fallthrough
		case strings.HasSuffix(member, "W"):
			if wall.Day() == nearest(wall, number, last) {
				return true
			}
		case strings.HasPrefix(member, "L"):
			if wall.AddDate(0, 0, 1+number).Day() == 1 && wall.Day()+number == last {
				return true
			}
		case o.holds(member, wall.Day(), 1, 31):
			return true
		}
	}
	return false
}

// nearest returns the day nearest to number that is no weekend, looking further and further away
// within the month.
func nearest(wall time.Time, number, last int) int {
	if number > last {
		return 0
	}
	for distance := 0; ; distance++ {
		for _, day := range []int{number - distance, number + distance} {
			weekday := time.Date(wall.Year(), wall.Month(), day, 0, 0, 0, 0, time.UTC).Weekday()
			if day >= 1 && day <= last && weekday != time.Saturday && weekday != time.Sunday {
				return day
			}
		}
	}
}

func (o *oracle) dayInWeek(text string, wall time.Time) bool {
	for member := range strings.SplitSeq(text, ",") {
		weekday, nth, numbered := strings.Cut(member, "#")
		day, _ := strconv.Atoi(strings.TrimSuffix(weekday, "L"))
		n, _ := strconv.Atoi(nth)
		switch {
		case numbered:
			if int(wall.Weekday()) == day%7 && (wall.Day()-1)/7+1 == n {
				return true
			}
		case strings.HasSuffix(member, "L"):
			if int(wall.Weekday()) == day%7 && wall.AddDate(0, 0, 7).Month() != wall.Month() {
				return true
			}
		case o.holds(member, int(wall.Weekday()), 0, 6), wall.Weekday() == time.Sunday && o.holds(member, 7, 0, 7):
			return true
		}
	}
	return false
}

// drawField draws the text of a field.
func drawField(t *rapid.T, name string, low, high int) string {
	number := func() string { return strconv.Itoa(rapid.IntRange(low, high).Draw(t, name)) }
	member := func() string {
		switch rapid.IntRange(0, 4).Draw(t, name+" kind") {
		case 0:
			a := rapid.IntRange(low, high).Draw(t, name+" from")
			return strconv.Itoa(a) + "-" + strconv.Itoa(rapid.IntRange(a, high).Draw(t, name+" to"))
		case 1:
			return "*/" + strconv.Itoa(rapid.IntRange(2, high).Draw(t, name+" step"))
		case 2:
			a := rapid.IntRange(low, high).Draw(t, name+" from")
			return strconv.Itoa(a) + "-" + strconv.Itoa(high) + "/" + strconv.Itoa(rapid.IntRange(1, high).Draw(t, name+" step"))
		}
		return number()
	}
	switch rapid.IntRange(0, 3).Draw(t, name+" shape") {
	case 0, 1:
		return "*"
	case 2:
		return member()
	}
	return member() + "," + member()
}

// drawPlain draws an expression that robfig understands, too.
func drawPlain(t *rapid.T) string {
	return strings.Join([]string{
		drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23), drawField(t, "day of month", 1, 31), drawField(t, "month", 1, 12),
		drawField(t, "day of week", 0, 6),
	}, " ")
}

// drawExpression draws any expression that holds no hash.
func drawExpression(t *rapid.T) string {
	texts := strings.Fields(drawPlain(t))
	texts[2] = rapid.SampledFrom([]string{texts[2], "*", "L", "L-3", "LW", "15W", "1W", "1,L", "31W,30W", "10-20"}).Draw(t, "days")
	texts[3] = "*"
	texts[4] = rapid.SampledFrom([]string{texts[4], "*", "7", "5-7", "1#1", "7#2,3#5", "0L", "5L,2"}).Draw(t, "weekdays")
	if rapid.IntRange(0, 9).Draw(t, "seconds") == 0 {
		return "*/30 " + strings.Join(texts, " ")
	}
	return strings.Join(texts, " ")
}

func drawSpec(t *rapid.T) Spec {
	return Spec{
		Expression: drawExpression(t),
		Gap:        rapid.SampledFrom([]GapPolicy{"", GapRun, GapSkip}).Draw(t, "gap"),
		Overlap:    rapid.SampledFrom([]OverlapPolicy{"", OverlapOnce, OverlapBoth}).Draw(t, "overlap"),
		Zone:       rapid.SampledFrom(oddZones()).Draw(t, "zone"),
	}
}

// drawChange draws an instant shortly before a clock change of the zone since 1973, or any instant
// where there is none.
func drawChange(t *rapid.T, zone *time.Location) time.Time {
	instant := time.Unix(rapid.Int64Range(94694400, 4102444800).Draw(t, "instant"), 0)
	if _, end := instant.In(zone).ZoneBounds(); !end.IsZero() {
		instant = end
	}
	return instant.Add(-time.Duration(rapid.IntRange(0, 30*60*60).Draw(t, "ahead")) * time.Second)
}

func TestEveryLocalTimeFiresByPolicyAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		c, err := Parse(spec)
		require.NoError(t, err, "%+v", spec)
		after := drawChange(t, c.zone)
		until := after.Add(60 * time.Hour)
		var got []time.Time
		for now := c.Next(after); !now.IsZero() && !now.After(until); now = c.Next(now) {
			got = append(got, now)
		}
		require.Equal(t, newOracle(t, spec).firings(after, until), got, "%+v from %s", spec, after.In(c.zone))
	})
}
