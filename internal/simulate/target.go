package simulate

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/http"
	"slices"
	"strings"
	"time"

	"rubato/internal/runs"
)

// Target is how a target answers, beside the changes of its content.
type Target struct {
	// Noise are the fields that differ without a change: "timestamp" each second, "uuid" and
	// "counter" with each answer.
	Noise []string
	// ETag makes the target answer 304 while its content is that of the answer before.
	ETag bool
	// OutageEvery is the time from one outage to the next, OutageFor their length; 0: none. During
	// one every request is answered 500, or with RetryAfter 503, which asks for a wait.
	OutageEvery, OutageFor time.Duration
	// Latency is the time from a request to its answer.
	Latency time.Duration
	// ErrorRate is the share of requests that are answered 500.
	ErrorRate float64
	// LimitRequests is the number of requests in any LimitPer that are not answered 429; 0: no
	// limit.
	LimitRequests int
	LimitPer      time.Duration
	// RetryAfter is sent with each 429, and with the 503 of an outage; 0: none.
	RetryAfter time.Duration
	// Next is sent as Rubato-Next with each successful answer; 0: none.
	Next time.Duration
}

// noises are the kinds of noise, for messages.
var noises = []string{"timestamp", "uuid", "counter"}

// maxRequests bounds the number of requests of a limit, whose times are kept.
const maxRequests = 100_000

// readTarget reads the members of a process that describe its answers.
func readTarget(o *object) Target {
	t := Target{
		ETag:       o.flag("etag"),
		Latency:    o.optionalDuration("latency"),
		RetryAfter: o.optionalDuration("retryAfter"),
		Next:       o.optionalDuration("next"),
	}
	for i, value := range o.items("noise") {
		name, _ := value.(string)
		if !slices.Contains(noises, name) {
			o.add(item(o.at("noise"), i), codeValue, "must be one of "+strings.Join(noises, ", "))
		}
		t.Noise = append(t.Noise, name)
	}
	if value, given := o.member("errorRate"); given {
		t.ErrorRate = o.readNumber(o.at("errorRate"), value, "a share such as 0.01", 1)
	}
	if value, given := o.member("outages"); given {
		if outages, ok := newObject(o.faults, o.at("outages"), value); ok {
			t.OutageEvery, t.OutageFor = outages.duration("every"), outages.duration("for")
			if t.OutageFor > 0 && t.OutageEvery > 0 && t.OutageFor >= t.OutageEvery {
				o.add(outages.at("for"), codeRange, "must be shorter than every")
			}
			outages.end()
		}
	}
	if value, given := o.member("limit"); given {
		if limit, ok := newObject(o.faults, o.at("limit"), value); ok {
			t.readLimit(limit)
			limit.end()
		}
	}
	if t.RetryAfter > 0 && t.OutageEvery == 0 && t.LimitPer == 0 {
		o.add(o.at("retryAfter"), codeValue, "needs outages or a limit, because it is sent with their answers 503 and 429")
	}
	return t
}

func (t *Target) readLimit(o *object) {
	t.LimitPer = o.duration("per")
	value, given := o.require("requests", "a number of requests such as 60")
	if !given {
		return
	}
	n, ok := value.(float64)
	if !ok || n < 1 || n > maxRequests || n != float64(int(n)) {
		o.add(o.at("requests"), codeValue, "must be a whole number from 1 to 100000")
		return
	}
	t.LimitRequests = int(n)
}

// target is a target in a world.
type target struct {
	Target
	content

	// begin is the instant of time 0.
	begin time.Time
	seed  uint64
	// outages are recorded outages, in ascending order.
	outages []outage
	// phase shifts the outages.
	phase time.Duration
	// version is the number of changes up to the last request.
	version int
	// told is the version of the last answer with a body; -1: none.
	told int
	// looks counts the answers with a body.
	looks uint64
	// accepted are the times of the last accepted requests, as a ring.
	accepted []time.Duration
	oldest   int
}

// fails reports whether a request at an instant fails for a reason that does not depend on other
// requests.
func (t *target) fails(at time.Duration) bool { return t.down(at) || t.errs(at) }

// down reports whether an instant is in an outage.
func (t *target) down(at time.Duration) bool {
	if len(t.outages) > 0 {
		i, _ := slices.BinarySearchFunc(t.outages, at, func(o outage, at time.Duration) int { return cmp.Compare(o.until, at+1) })
		return i < len(t.outages) && t.outages[i].from <= at
	}
	return t.OutageEvery > 0 && (at+t.phase)%t.OutageEvery >= t.OutageEvery-t.OutageFor
}

// ended returns the number of simulated outages that ended before an instant, and the end of the
// last one.
func (t *target) ended(at time.Duration) (n int, last time.Duration) {
	if t.OutageEvery == 0 {
		return 0, 0
	}
	n = int((at + t.phase) / t.OutageEvery)
	return n, time.Duration(n)*t.OutageEvery - t.phase
}

// errs reports whether a request at an instant is answered 500. It is a hash of the instant, so
// that every policy meets the same errors.
func (t *target) errs(at time.Duration) bool {
	return t.ErrorRate > 0 && float64(mix(t.seed^uint64(at.Milliseconds()))>>11)/(1<<53) < t.ErrorRate
}

// answer returns the outcome of a request. Requests come in the order of time.
func (t *target) answer(at time.Duration) runs.Outcome {
	o := runs.Outcome{
		Status:    runs.Failed,
		Reason:    runs.HTTPStatus,
		MaybeSent: true,
		Phases:    runs.Phases{Wait: t.Latency},
	}
	switch {
	case t.refuses(at):
		o.StatusCode = http.StatusTooManyRequests
		o.RetryAfter = t.retryAfter(at)
	case t.down(at) && t.RetryAfter > 0:
		o.StatusCode = http.StatusServiceUnavailable
		o.RetryAfter = t.retryAfter(at)
	case t.fails(at):
		o.StatusCode = http.StatusInternalServerError
	default:
		o.Status, o.StatusCode = runs.Succeeded, http.StatusOK
		if t.Next > 0 {
			o.TargetNext = t.begin.Add(at + t.Latency + t.Next)
		}
		t.fill(&o, at)
	}
	return o
}

// fill adds the content to a successful answer.
func (t *target) fill(o *runs.Outcome, at time.Duration) {
	for t.version < len(t.changes) && t.changes[t.version] <= at {
		t.version++
	}
	if t.ETag && t.told == t.version {
		o.StatusCode, o.Reason = http.StatusNotModified, runs.NotModified
		return
	}
	t.told = t.version
	t.looks++
	if len(t.Noise) == 0 {
		o.BodyDigest = runs.Tagged(mix(t.seed^uint64(t.version)), 0)
	}
}

// body returns the body of the answer to the last request, in which the fields of noise differ. It
// is meant for targets with noise; the content of others has a digest without a body.
func (t *target) body(at time.Duration) []byte {
	return append(t.appendNoise(fmt.Appendf(nil, `{"version":%d,"name":"%x"`, t.version, t.seed), at), '}')
}

// appendNoise appends the members of a JSON object that differ without a change.
func (t *target) appendNoise(body []byte, at time.Duration) []byte {
	for _, noise := range t.Noise {
		switch noise {
		case "timestamp":
			body = fmt.Appendf(body, `,"timestamp":%q`, t.begin.Add(at).Format(time.RFC3339))
		case "uuid":
			body = fmt.Appendf(body, `,"uuid":"%016x"`, mix(t.seed+t.looks))
		default:
			body = fmt.Appendf(body, `,"counter":%d`, t.looks)
		}
	}
	return body
}

// refuses reports whether a request exceeds the limit. A refused request does not count against it.
func (t *target) refuses(at time.Duration) bool {
	if t.LimitRequests == 0 {
		return false
	}
	if len(t.accepted) < t.LimitRequests {
		t.accepted = append(t.accepted, at)
		return false
	}
	if at-t.accepted[t.oldest] < t.LimitPer {
		return true
	}
	t.accepted[t.oldest] = at
	t.oldest = (t.oldest + 1) % t.LimitRequests
	return false
}

// retryAfter returns the instant that an answer asks to wait for; zero: none.
func (t *target) retryAfter(at time.Duration) time.Time {
	if t.RetryAfter == 0 {
		return time.Time{}
	}
	return t.begin.Add(at + t.Latency + t.RetryAfter)
}

// mix is the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x = bits.RotateLeft64(x, 17) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
