package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"

	"github.com/robfig/cron/v3"
)

// hashShape is H, H(a-b), H/n or H(a-b)/n.
var hashShape = regexp.MustCompile(`^H(?:\(([^()]+)\))?(?:/([0-9]+))?$`)

// hashed returns the value, or with a step the values, that the hash of the endpoint picks from the range.
func (f *field) hashed(span, step string, id [16]byte) (uint64, error) {
	if span == "" {
		span = f.hashRange()
	}
	within, err := f.plain(span)
	if err != nil {
		return 0, err
	}
	values := members(within &^ star)
	every, err := f.step(step)
	if err != nil {
		return 0, err
	}
	if step == "" {
		every = len(values)
	}

	var picked uint64
	for i := f.phase(id, min(every, len(values))); i < len(values); i += every {
		picked |= 1 << values[i]
	}
	return picked, nil
}

// hashRange is the range of a bare H. Days after the 28th are left out: they do not come every month.
func (f *field) hashRange() string {
	if f.kind == cron.Dom {
		return "1-28"
	}
	return "*"
}

// phase returns a number in [0, n) that depends on the endpoint and the field alone. It must never change: it is the time at
// which existing schedules run.
func (f *field) phase(id [16]byte, n int) int {
	sum := sha256.Sum256(fmt.Appendf(id[:], "/%s", f.name))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n)) //nolint:gosec // Below n, which is at most 60.
}

// members returns the positions of the bits of values, smallest first.
func members(values uint64) []int {
	all := make([]int, 0, bits.OnesCount64(values))
	for ; values != 0; values &= values - 1 {
		all = append(all, bits.TrailingZeros64(values))
	}
	return all
}
