package secrets

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetReturnsItsValues(t *testing.T) {
	t.Parallel()
	set := NewSet(7, map[string]Text{"token": NewText(canary)})

	value, err := set.Secret("token")
	require.NoError(t, err)
	require.Equal(t, canary, value)
	require.EqualValues(t, 7, set.Version())
	require.NotContains(t, fmt.Sprintf("%v %+v %#v", set, set, *set), canary)

	_, err = set.Secret("other")
	require.ErrorIs(t, err, ErrUnknown)
	require.ErrorContains(t, err, `"other"`)
}

func TestNilSetIsEmpty(t *testing.T) {
	t.Parallel()
	var set *Set

	_, err := set.Secret("token")

	require.ErrorIs(t, err, ErrUnknown)
	require.Zero(t, set.Version())
}
