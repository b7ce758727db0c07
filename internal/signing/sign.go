package signing

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"rubato/internal/secrets"
)

// The headers of a signed request.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	keyPrefix = "whsec_" // how a key is written, before its base64
	keyBytes  = 32
	scheme    = "v1," // HMAC-SHA256
)

// ErrNoKey is returned where a request is to be signed and no key is live.
var ErrNoKey = errors.New("there is no signing key in force: make one with POST /v1/signing-keys")

// errMalformed is returned for a key that NewText has not made.
var errMalformed = errors.New("a signing key is not whsec_ and base64")

// NewText returns a fresh key as receivers are given it: whsec_ and the base64 of 32 random bytes.
func NewText() secrets.Text {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // It never fails.
	return secrets.NewText(keyPrefix + base64.StdEncoding.EncodeToString(raw))
}

// Message is what is signed.
type Message struct {
	ID   string    // the same for one message for ever: a receiver that knows it has seen the message
	At   time.Time // when it is sent; receivers refuse old ones. To the second
	Body []byte    // as it is sent
}

// Sign returns the headers that prove a message under every one of the keys, so that a receiver may know any of them.
func Sign(m Message, keys []secrets.Text) (http.Header, error) {
	if len(keys) == 0 {
		return nil, ErrNoKey
	}
	at := strconv.FormatInt(m.At.Unix(), 10)
	signatures := make([]string, 0, len(keys))
	for _, key := range keys {
		encoded, found := strings.CutPrefix(key.Reveal(), keyPrefix)
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil || len(raw) == 0 {
			return nil, errMalformed // What cannot be decoded may be a part of the key, so it is not told.
		}
		mac := hmac.New(sha256.New, raw)
		_, _ = mac.Write([]byte(m.ID + "." + at + "."))
		_, _ = mac.Write(m.Body)
		signatures = append(signatures, scheme+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return http.Header{HeaderID: {m.ID}, HeaderTimestamp: {at}, HeaderSignature: {strings.Join(signatures, " ")}}, nil
}
