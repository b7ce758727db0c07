package callbacks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"

	"rubato/internal/errs"
	"rubato/internal/runs"
)

const (
	// Header names the URL to which a target reports the end of a run.
	Header = "Rubato-Callback-Url"
	// Path is the path of a callback URL before its token, as in the contract.
	Path = "/v1/callbacks/"
	// claimed is the length of a token before its proof: endpoint, run and fence, in bytes.
	claimed = 16 + 16 + 8
)

// Subject is what a token permits reports about: one attempt of a run, which is a run of its own,
// at one claim. The token of an earlier attempt or claim ends nothing.
type Subject struct {
	EndpointID [16]byte
	RunID      runs.ID
	// Fence is the fencing token of the claim.
	Fence int64
}

// Token returns the token of a subject: its three parts, and an HMAC-SHA256 of them under the
// secret of the endpoint, in Base64 for URLs.
func Token(key []byte, s Subject) string {
	text := slices.Concat(s.EndpointID[:], s.RunID[:])
	text = binary.BigEndian.AppendUint64(text, uint64(s.Fence))
	return base64.RawURLEncoding.EncodeToString(append(text, proof(key, text)...))
}

// proof is the HMAC of the parts of a token. The domain separates it from other uses of the key.
func proof(key, text []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("rubato.callback.v1\x00"))
	_, _ = mac.Write(text)
	return mac.Sum(nil)
}

// Open returns the subject that a token names, and a function that reports whether a key proves it.
// The error is an [errs.Malformed] if the text has not the form of a token.
func Open(token string) (s Subject, proves func(key []byte) bool, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != claimed+sha256.Size {
		return s, nil, errs.New(errs.Malformed, "", "a callback token has 96 letters, digits, - and _; use the URL of Rubato-Callback-URL unchanged")
	}
	text, given := raw[:claimed], raw[claimed:]
	s = Subject{
		EndpointID: [16]byte(text[:16]),
		RunID:      runs.ID(text[16:32]),
		Fence:      int64(binary.BigEndian.Uint64(text[32:])),
	}
	return s, func(key []byte) bool { return len(key) > 0 && hmac.Equal(given, proof(key, text)) }, nil
}

// ErrUnknown returns the [errs.NotFound] of a wrong token. It does not say which part is wrong.
func ErrUnknown() error {
	return errs.New(errs.NotFound, "callback_unknown", "there is no run with this callback token; use the URL of Rubato-Callback-URL unchanged")
}
