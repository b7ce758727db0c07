package egress

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStopwatch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		steps func(*stopwatch, func())
		want  Phases
	}{
		"EveryPhase": {
			func(w *stopwatch, second func()) {
				second()
				for p := resolving; p <= transferring; p++ {
					w.enter(p)
					second()
				}
			},
			Phases{DNS: time.Second, Connect: time.Second, TLS: time.Second, Wait: time.Second, Transfer: time.Second},
		},
		"EndsWhereItFailed": {
			func(w *stopwatch, second func()) {
				w.enter(resolving)
				second()
			},
			Phases{DNS: time.Second},
		},
		"NewsOfALateDialAreIgnored": {
			func(w *stopwatch, second func()) {
				w.enter(waiting)
				second()
				w.enter(connecting)
				second()
			},
			Phases{Wait: 2 * time.Second},
		},
		"NothingHappened": {func(*stopwatch, func()) {}, Phases{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var w stopwatch
				var got Phases
				test.steps(&w, func() { time.Sleep(time.Second) })
				w.addTo(&got)
				require.Equal(t, test.want, got)
			})
		})
	}
}
