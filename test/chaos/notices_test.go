package chaos

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"rubato/client"
	"rubato/internal/failpoint"
	"rubato/internal/signing"
)

// letter is a notice as a receiver gets it.
type letter struct {
	id, body string
}

// noticeReceiver is a receiver of notices that takes every one.
type noticeReceiver struct {
	*httptest.Server

	mu      sync.Mutex
	letters []letter
}

func newLetterbox(t *testing.T) *noticeReceiver {
	t.Helper()
	box := &noticeReceiver{}
	box.Server = httptest.NewServer(box)
	t.Cleanup(box.Close)
	return box
}

func (box *noticeReceiver) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	box.mu.Lock()
	defer box.mu.Unlock()
	box.letters = append(box.letters, letter{id: r.Header.Get(signing.HeaderID), body: string(body)})
}

func (box *noticeReceiver) got() []letter {
	box.mu.Lock()
	defer box.mu.Unlock()
	return slices.Clone(box.letters)
}

// A courier that is killed between the receiver's acceptance and its record leaves the notice to
// the next one, which sends it again under the same ID when the lock has expired. The endpoint goes
// on failing, and the episode stays the same.
func TestKilledBetweenANoticeAndItsRecord(t *testing.T) {
	t.Parallel()
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	s, box := newStack(t, map[string]string{"RUBATO_SECRET_KEYS": "k1:" + key}), newLetterbox(t)
	_, err := answer[client.SigningKeyWithSecret](s.api.CreateSigningKey(t.Context(), client.CreateSigningKeyJSONRequestBody{}))
	require.NoError(t, err)
	_, err = answer[client.NoticeRule](s.api.PutNoticeRule(t.Context(), "failing", nil, client.NoticeRuleSpec{
		Event: client.NoticeEventFailures, Failures: new(int32(2)), Channel: client.NoticeChannel{Kind: client.NoticeChannelKindWebhook, URL: new(box.URL)},
	}))
	require.NoError(t, err)
	victim := s.startWorker(map[string]string{"FAILPOINTS": fmt.Sprintf("%s=kill", failpoint.Noticed)})
	_, err = answer[client.Endpoint](s.api.CreateEndpoint(t.Context(), client.EndpointSpec{
		Name: "broken", URL: "http://" + freeAddress(t) + "/", BaselineIntervalMs: new(int64(1000)),
	}))
	require.NoError(t, err)

	require.True(t, victim.killed(t), "the fault did not fire")
	require.True(t, victim.failpointFired())
	require.Len(t, box.got(), 1)
	require.Equal(t, 1, s.count("SELECT count(*) FROM notices WHERE state = 'waiting' AND attempts = 0"), "nothing of it is on record")
	failed := s.count("SELECT failure_count FROM schedules")
	s.startWorker(nil)
	if !long() { // In the long form the minute of the lock passes.
		require.Equal(t, 1, s.count("SELECT count(*) FROM notices WHERE due_at > clock_timestamp()"), "the dead worker's lock holds")
		_, err = s.pool.Exec(t.Context(), "UPDATE notices SET due_at = clock_timestamp()")
		require.NoError(t, err)
	}
	eventually(t, "another worker to put the notice on record", func() bool {
		return s.count("SELECT count(*) FROM notices WHERE state = 'delivered'") == 1
	})
	eventually(t, "the endpoint to fail again", func() bool { return s.count("SELECT failure_count FROM schedules") > failed })

	got := box.got()
	require.Len(t, got, 2, "it is sent once more, and by one worker")
	require.True(t, strings.HasPrefix(got[0].id, "ntc_"), got[0].id)
	require.Equal(t, got[0], got[1], "a receiver can tell that it has it already")
	require.Equal(t, 1, s.count("SELECT count(*) FROM notice_episodes"))
	require.Equal(t, 1, s.count("SELECT count(*) FROM notices"))
	require.Equal(t, 1, s.count("SELECT attempts FROM notices"), "the dead worker's attempt is not on record")
	s.auditByProgram()
}
