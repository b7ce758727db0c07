package dispatch

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/internal/runs"
)

// TestACancelIsForTheFenceThatItNames asks for the end of a run under one token while it is, or
// comes, under this or another one.
func TestACancelIsForTheFenceThatItNames(t *testing.T) {
	t.Parallel()
	id := runs.NewID(start, [16]byte{1}, 1, 0)
	asked := []Cancel{{RunID: id, Token: 7, Author: "somebody"}}
	for name, c := range map[string]struct {
		token int64
		early bool
		ends  bool
	}{
		"BeforeItCame":            {token: 7, early: true, ends: true},
		"BeforeAnotherOfItCame":   {token: 8, early: true},
		"WhileItIsHere":           {token: 7, ends: true},
		"WhileAnotherOfItIsHere":  {token: 8},
		"WhileAnEarlierOneIsHere": {token: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			u := newUnderway()
			if c.early {
				require.Empty(t, u.apply(asked), "it is not here")
			}
			leave, other := u.enter(id, &cancelableRun{token: c.token, cancel: cancel})
			require.Nil(t, other)
			defer leave()
			if canceled := u.apply(asked); c.ends && !c.early {
				require.Equal(t, asked, canceled)
			} else {
				require.Empty(t, canceled)
			}
			require.Equal(t, c.ends, ctx.Err() != nil)
			require.Empty(t, u.apply(asked), "once is enough")
		})
	}
}
