package simulate

import (
	"math/rand/v2"
	"strings"
	"time"
)

// Process is a process of changes of a target's content.
type Process interface {
	// content returns the changes of a span that begins at 0. Equal random sources give equal
	// content.
	content(luck *rand.Rand, length time.Duration) content
}

// content is when a target's content changes.
type content struct {
	// changes are the times of the changes since the beginning, in ascending order.
	changes []time.Duration
	// rates is the rate of change over time, which a clairvoyant policy knows.
	rates []era
}

// era is a time of constant rate.
type era struct {
	until time.Duration
	// rate is the number of changes per second.
	rate float64
}

// poisson draws the changes of a Poisson process with the rates of eras.
func poisson(luck *rand.Rand, eras []era) content {
	c := content{rates: eras}
	var from time.Duration
	for _, e := range eras {
		for at := seconds(from); e.rate > 0; {
			at += luck.ExpFloat64() / e.rate
			if at >= seconds(e.until) {
				break
			}
			c.changes = append(c.changes, time.Duration(at*float64(time.Second)))
		}
		from = e.until
	}
	return c
}

func seconds(d time.Duration) float64 { return d.Seconds() }

// constant is a Poisson process of constant rate.
type constant struct{ rate float64 }

func (p constant) content(luck *rand.Rand, length time.Duration) content {
	return poisson(luck, []era{{length, p.rate}})
}

// bursts alternates between a quiet time without changes and a burst. The first quiet time is cut
// at random, because otherwise the bursts of all seeds would coincide.
type bursts struct {
	quiet, burst time.Duration
	rate         float64
}

func (p bursts) content(luck *rand.Rand, length time.Duration) content {
	at := -time.Duration(luck.Int64N(int64(p.quiet + p.burst)))
	var eras []era
	for at < length {
		eras = append(eras, era{at + p.quiet, 0}, era{at + p.quiet + p.burst, p.rate})
		at += p.quiet + p.burst
	}
	return poisson(luck, within(eras, length))
}

// within cuts eras to a span that begins at 0.
func within(eras []era, length time.Duration) []era {
	var list []era
	for _, e := range eras {
		if e.until <= 0 {
			continue
		}
		e.until = min(e.until, length)
		if list = append(list, e); e.until == length {
			break
		}
	}
	return list
}

// modulated is a Markov-modulated Poisson process: it dwells in each state for an exponentially
// distributed time, then moves to another one.
type modulated struct {
	rates []float64
	dwell []time.Duration
}

func (p modulated) content(luck *rand.Rand, length time.Duration) content {
	var eras []era
	state := luck.IntN(len(p.rates))
	for at := time.Duration(0); at < length; {
		at += time.Duration(luck.ExpFloat64() * float64(p.dwell[state]))
		eras = append(eras, era{at, p.rates[state]})
		state = (state + 1 + luck.IntN(len(p.rates)-1)) % len(p.rates)
	}
	return poisson(luck, within(eras, length))
}

// diurnal follows the time of day: it has its peak rate in working hours and its night rate in the
// others. The world begins at midnight.
type diurnal struct{ peak, night float64 }

// Working hours.
const (
	dayBegins = 9 * time.Hour
	dayEnds   = 17 * time.Hour
)

func (p diurnal) content(luck *rand.Rand, length time.Duration) content {
	var eras []era
	for midnight := time.Duration(0); midnight < length; midnight += 24 * time.Hour {
		eras = append(eras, era{midnight + dayBegins, p.night}, era{midnight + dayEnds, p.peak}, era{midnight + 24*time.Hour, p.night})
	}
	return poisson(luck, within(eras, length))
}

// periodic changes at regular times.
type periodic struct{ every, offset time.Duration }

func (p periodic) content(_ *rand.Rand, length time.Duration) content {
	c := content{rates: []era{{length, 1 / p.every.Seconds()}}}
	for at := p.offset; at < length; at += p.every {
		c.changes = append(c.changes, at)
	}
	return c
}

// trace repeats recorded changes.
type trace struct {
	// changes are the times since the first change.
	changes []time.Duration
}

// traceStep is the time over which the rate of a trace is averaged. A shorter one would tell the
// clairvoyant policy where single changes are.
const traceStep = time.Hour

func (p trace) content(_ *rand.Rand, length time.Duration) content {
	last := p.changes[len(p.changes)-1]
	period := last + last/time.Duration(max(len(p.changes)-1, 1)) // The gap to the repetition is a mean one.
	var c content
	for start := time.Duration(0); start < length; start += max(period, time.Second) {
		for _, at := range p.changes {
			if start+at < length {
				c.changes = append(c.changes, start+at)
			}
		}
	}
	next := 0
	for at := time.Duration(0); at < length; at += traceStep {
		until, before := min(at+traceStep, length), next
		for next < len(c.changes) && c.changes[next] < until {
			next++
		}
		c.rates = append(c.rates, era{until, float64(next-before) / (until - at).Seconds()})
	}
	return c
}

// kinds are the kinds of processes, for messages.
var kinds = []string{"poisson", "bursts", "mmpp", "diurnal", "periodic", "trace"}

// readProcess reads the members of a process that describe its changes. open reads a file of a
// trace.
func readProcess(o *object, open func(name string) ([]byte, error)) Process {
	switch kind := o.text("kind"); kind {
	case "poisson":
		return constant{o.rate("rate")}
	case "bursts":
		return bursts{
			quiet: o.duration("quiet"),
			burst: o.duration("burst"),
			rate:  o.rate("rate"),
		}
	case "mmpp":
		return o.modulated()
	case "diurnal":
		return diurnal{
			peak:  o.rate("peakRate"),
			night: o.rate("nightRate"),
		}
	case "periodic":
		return periodic{
			every:  o.duration("every"),
			offset: o.optionalDuration("offset"),
		}
	case "trace":
		return o.trace(open)
	default:
		o.add(o.at("kind"), codeValue, "must be one of "+strings.Join(kinds, ", "))
		for name := range o.members { // Which members are known depends on the kind.
			o.known[name] = true
		}
		return nil
	}
}

// modulated reads a Markov-modulated process.
func (o *object) modulated() modulated {
	var p modulated
	for i, value := range o.items("rates") {
		p.rates = append(p.rates, o.readNumber(item(o.at("rates"), i), value, formRate, most))
	}
	for i, value := range o.items("dwell") {
		p.dwell = append(p.dwell, o.readDuration(item(o.at("dwell"), i), value))
	}
	if len(p.rates) < 2 {
		o.add(o.at("rates"), codeRequired, "must list at least two rates, one per state, such as [0, 0.5]")
	}
	if len(p.dwell) != len(p.rates) {
		o.add(o.at("dwell"), codeValue, "must list a mean duration for each of rates, such as [25m, 2m]")
	}
	return p
}
