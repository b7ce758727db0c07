package zombie

import (
	"context"
	"strings"

	"rubato/internal/placement"
)

// unservedLimit bounds the due times of each lane that one sweep skips.
const unservedLimit = 1000

// skipUnserved skips the due times of endpoints whose required tags no active worker serves. A run
// that would start hours late is of little use, and the record shows the reason.
func (s *Sweeper) skipUnserved(ctx context.Context) error {
	sets, err := s.cfg.Store.Unserved(ctx, placement.UnroutableAfter)
	if err != nil || len(sets) == 0 {
		return err
	}
	skipped, err := s.cfg.Store.SkipUnserved(ctx, sets, unservedLimit)
	if skipped > 0 {
		s.cfg.Logger.Warn("skipped due times, because no active worker has the required tags", "skipped", skipped, "tags", missing(sets))
	}
	return err
}

// missing returns the required tags of sets for the log.
func missing(sets []TagSet) string {
	list := make([]string, 0, len(sets))
	for _, set := range sets {
		list = append(list, strings.Join(set.Required, "+"))
	}
	return strings.Join(list, ",")
}
