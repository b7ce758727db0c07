package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// riverSource is the source directory of the program that runs River.
const riverSource = "test/bench/river"

// riverLead is how long before the first due time River starts. River first elects a leader, and
// moves jobs that are due within 5 s to its queue every 5 s.
const riverLead = 14 * time.Second

// river returns River as a contender, or the reason for leaving it out.
func (l *environment) river(ctx context.Context, callers int) (_ peer, absent string) {
	program, err := l.buildRiver(ctx)
	if err != nil {
		return peer{}, "River is left out: " + err.Error()
	}
	start := func(ctx context.Context, t task, mode string) (*process, error) {
		t.Mode = mode
		return startProcess(ctx, command{
			name: "river",
			path: program,
			task: t,
		})
	}
	return peer{
		name:    contenderRiver,
		records: records{"river_job", "state = 'completed' AND scheduled_at >= $1 AND scheduled_at < $2"},
		callers: callers,
		prepare: 5 * time.Second,
		lead:    riverLead,
		fill: func(ctx context.Context, _ *database, t task) error {
			p, err := start(ctx, t, "fill")
			if err != nil {
				return err
			}
			return p.stop()
		},
		start: func(ctx context.Context, _ *environment, t task) (*process, error) { return start(ctx, t, "work") },
	}, ""
}

// buildRiver builds the program that runs River. It is a separate module, so that Rubato does not
// depend on River.
func (l *environment) buildRiver(ctx context.Context) (string, error) {
	source, err := findUp(riverSource)
	if err != nil {
		return "", err
	}
	program := filepath.Join(l.dir, "river")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".") //nolint:gosec // The path is not user input.
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building it failed: %w: %s", err, firstLineOf(string(out)))
	}
	return program, nil
}

// findUp returns a directory of the source tree, searched upwards from the working directory.
func findUp(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the source tree: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil {
			return path, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run this in the source tree, where " + name + " is")
		}
	}
}

func firstLineOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
