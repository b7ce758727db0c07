package egress

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"rubato/internal/egress/egresstest"
)

// TestWhatWouldLeaveTooLateDoesNotLeave asks for a call whose time to begin is over, on a fresh connection and on a kept one.
func TestWhatWouldLeaveTooLateDoesNotLeave(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer(egresstest.OK("ok")))
	client := setup(t)
	for _, seen := range []int{0, 1} {
		late := get(target.URL())
		late.SendBy = time.Now().Add(-time.Millisecond)
		e, _ := fails(t, client, late)
		require.Equal(t, Late, e.Reason)
		require.False(t, e.Sent)
		require.Len(t, target.Requests(), seen)

		early := get(target.URL())
		early.SendBy = time.Now().Add(time.Minute)
		_, err := client.Do(t.Context(), early)
		require.NoError(t, err)
	}
	require.Len(t, target.Requests(), 2)
}

func TestWhatWouldLeaveTooLateDoesNotLeaveOverHTTP2(t *testing.T) {
	t.Parallel()
	server, client := secured(t, Config{})
	target := egresstest.StartH2(t, server, egresstest.AnswerH2("ok"), http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
	_, err := client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	late := get(target.URL())
	late.SendBy = time.Now().Add(-time.Millisecond)
	e, _ := fails(t, client, late)
	require.Equal(t, Late, e.Reason)
	require.False(t, e.Sent)
	_, err = client.Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Equal(t, 1, target.Conns(), "its place on the connection is free again")
}
