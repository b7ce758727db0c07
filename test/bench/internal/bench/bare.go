package bench

import (
	"context"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// bareFrom is the process of the bare client. It sends every request at its due time without a
// database, so its throughput is the ceiling for any program on net/http.
func bareFrom(ctx context.Context, text []byte, tell func(processMessage) error) error {
	t, err := taskOf[task](text)
	if err != nil {
		return err
	}
	if err := tell(processMessage{}); err != nil {
		return err
	}
	if !await(ctx, t.Due) {
		return ctx.Err()
	}
	client := newCaller(t.Callers)
	defer client.close()
	var next atomic.Int64
	group, calls := errgroup.WithContext(ctx)
	for range t.Callers {
		group.Go(func() error {
			for n := int(next.Add(1)) - 1; n < t.Jobs; n = int(next.Add(1)) - 1 {
				if _, err := client.call(calls, job{
					n:   n,
					url: t.Target + strconv.Itoa(n),
					due: t.dueOf(n),
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	<-ctx.Done() // Wait, because /proc loses the accounts of a process when it exits.
	return nil
}
