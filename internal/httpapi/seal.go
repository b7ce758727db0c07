package httpapi

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"

	"rubato/internal/idempotency"
)

// seal encrypts a response that contains a secret with the secret of the caller's API key. The
// database never sees that key, so that a leaked database reveals no secret.
func seal(body []byte, a idempotency.Attempt, asker string) []byte {
	lock := locker(asker)
	nonce := make([]byte, lock.NonceSize())
	_, _ = rand.Read(nonce) // It never fails.
	return lock.Seal(nonce, nonce, body, a.Hash[:])
}

// unseal is the inverse of seal. It fails for another asker.
func unseal(sealed []byte, a idempotency.Attempt, asker string) ([]byte, error) {
	lock := locker(asker)
	if len(sealed) < lock.NonceSize() {
		return nil, errors.New("a sealed answer is too short")
	}
	return lock.Open(nil, sealed[:lock.NonceSize()], sealed[lock.NonceSize():], a.Hash[:])
}

func locker(asker string) cipher.AEAD {
	key := sha256.Sum256([]byte("rubato kept answer\x00" + asker))
	block, err := aes.NewCipher(key[:])
	if err != nil { // 32 bytes are a key.
		panic(err)
	}
	lock, err := cipher.NewGCM(block)
	if err != nil { // AES fits.
		panic(err)
	}
	return lock
}
