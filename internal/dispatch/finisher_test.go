package dispatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResultsShareABatchWhileTheWriterIsBusy has one busy writer, and results that arrive
// meanwhile.
func TestResultsShareABatchWhileTheWriterIsBusy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ come, want int }{
		"Some":             {20, 20},
		"MoreThanOneTakes": {finishBatch + 5, finishBatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := lone(t, Config{Slots: 4 * finishBatch})
				occupy(w, 3*finishBatch)
				writers, gathered := make(chan struct{}, 1), make(chan []result, 1)
				writers <- struct{}{}
				go func() { gathered <- w.gather([]result{{}}, writers) }()
				for range tc.come - 1 {
					w.results <- result{}
				}
				time.Sleep(time.Second) // Far longer than a result waits for others.
				synctest.Wait()
				require.Empty(t, gathered)

				<-writers
				require.Len(t, <-gathered, tc.want)
				require.Len(t, writers, 1, "the batch has its writer")
				require.Len(t, w.results, tc.come-tc.want)
			})
		})
	}
}

// TestResultsWaitBrieflyForABatch has a free writer. A result that is the only run in flight does
// not wait. Otherwise a batch waits for others, until it holds all runs in flight.
func TestResultsWaitBrieflyForABatch(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		busy  int64
		apart time.Duration // between those that come; 0: none do
		come  int
		want  time.Duration
		took  int
	}{
		"Alone":       {busy: 1, want: 0, took: 1},
		"NoneCome":    {busy: 3, want: finishLinger, took: 1},
		"OneComes":    {busy: 3, apart: finishLinger / 2, come: 1, want: finishLinger, took: 2},
		"TheLast":     {busy: 2, apart: finishLinger / 2, come: 1, want: finishLinger / 2, took: 2},
		"TooFarApart": {busy: 9, apart: finishLinger * 3 / 2, come: 3, want: finishLinger, took: 1},
		"ManyCome":    {busy: 99, apart: finishLinger * 2 / 15, come: 50, want: finishLinger, took: 1 + 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := lone(t, Config{Slots: 128})
				occupy(w, int(tc.busy))
				go func() {
					for range tc.come {
						time.Sleep(tc.apart)
						w.results <- result{}
					}
				}()
				began := time.Now()
				require.Len(t, w.gather([]result{{}}, make(chan struct{}, 1)), tc.took)
				require.Equal(t, tc.want, time.Since(began))
				time.Sleep(time.Second) // Until everything has come.
			})
		})
	}
}
