package waittest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/waittest"
)

// probe makes the test binary run only the tests named Pair, with two at once.
const probe = "RUBATO_WAITTEST_PROBE"

func TestMain(m *testing.M) {
	if os.Getenv(probe) != "" {
		waittest.Together(2)
	}
	os.Exit(m.Run())
}

// meeting is where the two tests of a pair meet.
var meeting = make(chan struct{}) //nolint:gochecknoglobals // Two tests share it.

func TestPairOne(t *testing.T) {
	t.Parallel()
	if os.Getenv(probe) != "" {
		waittest.Receive(t, meeting, "the other test does not run beside")
	}
}

func TestPairTwo(t *testing.T) {
	t.Parallel()
	if os.Getenv(probe) != "" {
		select {
		case meeting <- struct{}{}:
		case <-t.Context().Done():
		}
	}
}

// run runs the pair in a process of its own, on one processor, where Go would run one test at a
// time.
func run(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestPair"}, args...)...)
	cmd.Env = append(os.Environ(), probe+"=1", "GOMAXPROCS=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTogetherYieldsToTheParallelFlag(t *testing.T) {
	t.Parallel()
	out, err := run(t)
	require.NoError(t, err, out)
	out, err = run(t, "-test.parallel=1", "-test.timeout=2s") // The one waits for the other in vain.
	require.Error(t, err, out)
}
