package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
)

func TestRemovedByWarningCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{"hint_removed": true, "pause_removed": true, "nothing_in_force": true, "hint_used": false, "timeout_exceeds_interval": false} {
		require.Equal(t, want, client.FieldError{Code: code}.Removed(), code)
	}
}
