package dispatch

import "context"

// Ready returns the first check that does not hold.
func (w *Worker) Ready(ctx context.Context) error {
	for _, c := range w.Checks() {
		if err := c.Ask(ctx); err != nil {
			return err
		}
	}
	return nil
}
