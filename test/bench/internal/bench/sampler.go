package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// sampler samples an installation periodically.
type sampler struct {
	in     *installation
	names  []string // in the order of their first sample
	units  map[string]string
	series map[string][]float64
}

// run samples at an interval for a duration. A slow sample delays the next ones; none is skipped.
func (s *sampler) run(ctx context.Context, every, span time.Duration) error {
	s.units, s.series = map[string]string{}, map[string][]float64{}
	from := time.Now()
	for n := 1; time.Duration(n)*every <= span; n++ {
		if !await(ctx, from.Add(time.Duration(n)*every)) {
			return ctx.Err()
		}
		if err := s.look(ctx); err != nil {
			return fmt.Errorf("looking at what may grow: %w", err)
		}
		s.in.db.lab.Progress.bar("of the time", int(time.Since(from).Seconds()), int(span.Seconds()))
	}
	return nil
}

// look takes one sample of every quantity.
func (s *sampler) look(ctx context.Context) error {
	if err := s.process(ctx, "API server", s.in.api); err != nil {
		return err
	}
	for n, w := range s.in.workers {
		if err := s.process(ctx, fmt.Sprintf("worker %d", n+1), w); err != nil {
			return err
		}
	}
	return s.database(ctx)
}

func (s *sampler) add(name, unit string, value float64) {
	if _, known := s.series[name]; !known {
		s.names = append(s.names, name)
		s.units[name] = unit
	}
	s.series[name] = append(s.series[name], value)
}

// process samples a process of the product after a garbage collection, so that only live memory
// counts.
func (s *sampler) process(ctx context.Context, name string, p *process) error {
	text, err := fetch(ctx, "GET", p.news.Serves.Admin+"/debug/pprof/heap?gc=1&debug=1")
	if err != nil {
		return err
	}
	heap, err := numberAfter(text, "# HeapAlloc = ")
	if err != nil {
		return err
	}
	s.add(name+": heap after a collection", "MiB", heap/(1<<20))
	if text, err = fetch(ctx, "GET", p.news.Serves.Admin+"/debug/pprof/goroutine?debug=1"); err != nil {
		return err
	}
	goroutines, err := numberAfter(text, "goroutine profile: total ")
	if err != nil {
		return err
	}
	s.add(name+": goroutines", "", goroutines)
	resident, err := statusField(p.pid(), "VmRSS:")
	if errors.Is(err, errNoProc) {
		return nil
	} else if err != nil {
		return err
	}
	s.add(name+": resident memory", "MiB", float64(resident)/(1<<20))
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid()))
	if err != nil {
		return fmt.Errorf("counting the open files of the %s: %w", name, err)
	}
	s.add(name+": open files", "", float64(len(files)))
	return nil
}

// numberAfter returns the number that follows a prefix of a line.
func numberAfter(text []byte, beginning string) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		if rest, found := strings.CutPrefix(lines.Text(), beginning); found {
			return strconv.ParseFloat(rest, 64)
		}
	}
	return 0, fmt.Errorf("the profile has no %q", beginning)
}

// database samples the connections and the table that every run updates.
func (s *sampler) database(ctx context.Context) error {
	var connections float64
	if err := s.in.db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'rubato%'`).Scan(&connections); err != nil {
		return fmt.Errorf("counting connections: %w", err)
	}
	s.add("connections to the database", "", connections)
	var live, dead, size, indexes float64
	if err := s.in.db.pool.QueryRow(ctx, `SELECT n_live_tup, n_dead_tup, pg_relation_size(relid) / 1048576.0, pg_indexes_size(relid) / 1048576.0
		FROM pg_stat_user_tables WHERE relname = 'schedules'`).Scan(&live, &dead, &size, &indexes); err != nil {
		return fmt.Errorf("reading the statistics of the table schedules: %w", err)
	}
	s.add("schedules: live rows", "", live)
	s.add("schedules: dead rows", "", dead)
	s.add("schedules: size", "MiB", size)
	s.add("schedules: indexes", "MiB", indexes)
	return nil
}

// report fits a trend to each series.
func (s *sampler) report(every time.Duration) *SoakReport {
	r := &SoakReport{}
	for _, name := range s.names {
		t := trendOf(name, s.units[name], s.series[name], every)
		r.Samples = max(r.Samples, len(s.series[name]))
		r.Trends, r.Grows = append(r.Trends, t), r.Grows || t.Grows
	}
	return r
}
