package pg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"rubato/internal/store/dbsqlc"
)

// TestPipelinesDoNotMix sends pipelines over two connections at once: below the driver's buffer,
// within the buffer that a connection keeps, and longer ones. Each comes back unchanged.
func TestPipelinesDoNotMix(t *testing.T) {
	t.Parallel()
	var senders errgroup.Group
	for n, conn := range []*pgx.Conn{prepared(t), prepared(t)} {
		tx, err := conn.Begin(t.Context())
		require.NoError(t, err)
		senders.Go(func() error {
			for round, size := range []int{1, 100 << 10, 1, 200, 600 << 10, 300 << 10, 10, 500 << 10} {
				var sent, came [3]string
				var list []Statement
				for i := range sent {
					sent[i] = strings.Repeat(string(rune('a'+5*n+i)), size)
					list = append(list, func(q dbsqlc.DBTX) error {
						return q.QueryRow(t.Context(), "SELECT ($1::text[])[1]", []string{sent[i]}).Scan(&came[i])
					})
				}
				if err := Pipeline(t.Context(), tx, list...); err != nil {
					return err
				}
				if sent != came {
					return fmt.Errorf("what connection %d sent in round %d came back as something else", n, round)
				}
			}
			return nil
		})
	}
	require.NoError(t, senders.Wait())
}

func TestAConnectionKeepsNoLongBuffer(t *testing.T) {
	t.Parallel()
	s := scratch{most: 1000}
	require.Len(t, s.extend([]byte("before"), 5000), len("before"))
	require.Zero(t, cap(s.buffer))
	kept := s.extend(nil, 400)
	require.LessOrEqual(t, cap(kept), 1000)
	require.Same(t, &kept[:1][0], &s.extend(nil, 600)[:1][0], "the same memory serves again")
}
