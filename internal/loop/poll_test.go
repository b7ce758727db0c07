package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/loop"
)

func TestPollReportsTheFirstOfConsecutiveErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		outage := errors.New("no database")
		results := []error{outage, outage, nil, outage, nil}
		ctx, cancel := context.WithCancel(t.Context())
		began, calls, reported := time.Now(), 0, []int(nil)
		loop.Poll(ctx, time.Second, func(context.Context) error {
			require.Equal(t, time.Duration(calls)*time.Second, time.Since(began))
			if calls == len(results) {
				cancel()
				return outage // The end of the loop is no failure.
			}
			calls++
			return results[calls-1]
		}, func(err error) {
			require.ErrorIs(t, err, outage)
			reported = append(reported, calls)
		})
		require.Equal(t, []int{1, 4}, reported)
	})
}
