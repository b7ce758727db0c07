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

// hashed returns the values that the hash of the endpoint selects from a range: one value, or with
// a step all values of one phase.
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

// hashRange is the range of a bare H. Days after the 28th are excluded, because not every month has
// them.
func (f *field) hashRange() string {
	if f.kind == cron.Dom {
		return "1-28"
	}
	return "*"
}

// phase returns a hash of endpoint and field in [0, n). It must never change, because it sets the
// times of existing schedules.
func (f *field) phase(id [16]byte, n int) int {
	sum := sha256.Sum256(fmt.Appendf(id[:], "/%s", f.name))
	return int(binary.BigEndian.Uint64(sum[:8]) % uint64(n))
}

// members returns the positions of the set bits, smallest first.
func members(values uint64) []int {
	all := make([]int, 0, bits.OnesCount64(values))
	for ; values != 0; values &= values - 1 {
		all = append(all, bits.TrailingZeros64(values))
	}
	return all
}
