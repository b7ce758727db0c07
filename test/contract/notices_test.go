package contract

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A secret in the channel of a notice rule is deleted only by force, or when no rule refers to it.
func TestSecretThatANoticeRuleNeedsStays(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.call(t, "PUT", "/v1/secrets/slack-url", `{"value":"https://hooks.example.com/services/T0"}`).is(t, http.StatusCreated)
	const channel = `{"event":"lost","channel":{"kind":"slack","urlSecret":"slack-url"}}`
	w.call(t, "PUT", "/v1/notice-rules/night", channel).is(t, http.StatusCreated)

	refused := w.call(t, "DELETE", "/v1/secrets/slack-url", "").is(t, http.StatusConflict)
	require.Equal(t, "secret_in_use", refused["code"])
	require.Contains(t, refused["detail"], `the notice rule "night"`)
	w.call(t, "GET", "/v1/secrets/slack-url", "").is(t, http.StatusOK)
	w.call(t, "DELETE", "/v1/notice-rules/night", "").is(t, http.StatusNoContent)
	w.call(t, "DELETE", "/v1/secrets/slack-url", "").is(t, http.StatusNoContent)

	w.call(t, "PUT", "/v1/secrets/slack-url", `{"value":"https://hooks.example.com/services/T0"}`).is(t, http.StatusCreated)
	w.call(t, "PUT", "/v1/notice-rules/night", channel).is(t, http.StatusCreated)
	w.call(t, "DELETE", "/v1/secrets/slack-url?force=true", "").is(t, http.StatusNoContent)
	w.call(t, "GET", "/v1/notice-rules/night", "").is(t, http.StatusOK)
}
