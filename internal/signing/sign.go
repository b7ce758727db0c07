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
	keyPrefix = "whsec_" // prefix of the base64 form of a key
	keyBytes  = 32
	scheme    = "v1," // HMAC-SHA256
)

// ErrNoKey is the error of signing without a live key.
var ErrNoKey = errors.New("there is no signing key in force: make one with POST /v1/signing-keys")

// errMalformed is the error for a key that was not made by NewText.
var errMalformed = errors.New("a signing key is not whsec_ and base64")

// NewText returns a fresh key in the form that receivers use: whsec_ and the base64 of 32 random
// bytes.
func NewText() secrets.Text {
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // It never fails.
	return secrets.NewText(keyPrefix + base64.StdEncoding.EncodeToString(raw))
}

// Message is the signed content.
type Message struct {
	// ID is the same for every delivery of a message, so that receivers can drop duplicates.
	ID string
	// At is the time of sending, with a resolution of a second. Receivers refuse old timestamps
	// against replay.
	At time.Time
	// Body is the exact body of the request.
	Body []byte
}

// Sign returns the headers with a signature under each key, so that a receiver may verify by any
// one of them during a rotation.
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
			return nil, errMalformed // Without the cause, because it may contain a part of the key.
		}
		mac := hmac.New(sha256.New, raw)
		_, _ = mac.Write([]byte(m.ID + "." + at + "."))
		_, _ = mac.Write(m.Body)
		signatures = append(signatures, scheme+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return http.Header{
		HeaderID:        {m.ID},
		HeaderTimestamp: {at},
		HeaderSignature: {strings.Join(signatures, " ")},
	}, nil
}

// maxAge is how far the timestamp of a message may be from the time of its receiver, as Standard
// Webhooks recommends.
const maxAge = 5 * time.Minute

// Verify returns nil if a received message carries a signature under one of the keys, and was sent
// within 5 minutes of now. Its errors name the header that is wrong, and quote nothing.
func Verify(header http.Header, body []byte, keys []secrets.Text, now time.Time) error {
	id, text := header.Get(HeaderID), header.Get(HeaderTimestamp)
	if id == "" {
		return errors.New(HeaderID + " is missing")
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errors.New(HeaderTimestamp + " must be a number of seconds since 1970")
	}
	at := time.Unix(seconds, 0)
	if at.Before(now.Add(-maxAge)) || at.After(now.Add(maxAge)) {
		return errors.New(HeaderTimestamp + " is more than 5 minutes from now")
	}
	for _, key := range keys {
		want, err := Sign(Message{ID: id, At: at, Body: body}, []secrets.Text{key})
		if err != nil {
			return err
		}
		for given := range strings.FieldsSeq(header.Get(HeaderSignature)) {
			if hmac.Equal([]byte(given), []byte(want.Get(HeaderSignature))) {
				return nil
			}
		}
	}
	return errors.New(HeaderSignature + " matches no signing key in force")
}
