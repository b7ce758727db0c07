package quota

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNobodyTakesMoreThanTheirShareOrMoreThanThereIs(t *testing.T) {
	t.Parallel()
	q := New(2, 3)
	take := func(key byte) func() {
		release, ok := q.Acquire([16]byte{key})
		if !ok {
			return nil
		}
		return release
	}
	first, second := take(1), take(1)
	require.NotNil(t, first)
	require.NotNil(t, second)
	require.Nil(t, take(1), "a third of one key")
	third := take(2)
	require.NotNil(t, third)
	require.Nil(t, take(3), "a fourth of all")

	first()
	require.NotNil(t, take(3), "what is given back can be taken")
	second()
	third()
	require.Len(t, q.keys, 1, "keys that hold nothing are forgotten")
}
