package dispatch

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// TestGoroutinePoolShrinks has a pool of many, as a moment of waiting leaves it, work on as one
// would have to.
func TestGoroutinePoolShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, gate := newGoroutinePool(), make(chan struct{})
		for range 20 {
			c.run(func() { <-gate })
		}
		close(gate)
		synctest.Wait()
		require.EqualValues(t, 20, c.idle.Load())

		ran := 0
		for range 20 * service {
			c.run(func() { ran++ })
			synctest.Wait()
		}

		require.Equal(t, 20*service, ran)
		require.LessOrEqual(t, c.idle.Load(), int64(1))
		c.wait()
		c.end()
	})
}

// TestGoroutinePoolKeepsNoMoreThanABatchNeeds has more at work at once than may wait for more.
func TestGoroutinePoolKeepsNoMoreThanABatchNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, gate := newGoroutinePool(), make(chan struct{})
		for range maxIdle + 50 {
			c.run(func() { <-gate })
		}
		close(gate)
		c.wait()
		synctest.Wait()
		require.EqualValues(t, maxIdle, c.idle.Load())
		c.end()
	})
}
