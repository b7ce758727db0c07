package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// KeySize is the length of a key of a [Keyring] in bytes.
const KeySize = 32

// ErrUnreadable is wrapped by errors about a sealed value if its key is missing from the keyring or
// differs.
var ErrUnreadable = errors.New("it is encrypted under a key that this program does not have")

// ErrNoKeys is the error of sealing with an empty keyring.
var ErrNoKeys = errors.New("there is no key to encrypt secrets under")

// Key is an encryption key with its ID. The ID is stored next to each sealed value.
type Key struct {
	ID    string
	Bytes Text // KeySize bytes
}

// Kind is the kind of a sealed value. Encryption is bound to it, so that a value of one kind cannot
// replace one of another.
type Kind string

// The kinds of sealed values.
const (
	Named      Kind = "secret"
	Signing    Kind = "signing key"
	DeadLetter Kind = "dead letter" // its request
)

// Identity is the identity of a sealed value. Encryption is bound to it, so that the value cannot
// be opened under another identity.
type Identity struct {
	Tenant [16]byte
	Kind   Kind
	// Name is that of the secret, or the ID of the signing key.
	Name string
}

// Sealed is a value in its stored form: AES-256-GCM, under a key that HKDF-SHA256 derives from a
// keyring key for the tenant and the kind.
type Sealed struct {
	KeyID string
	Data  []byte // nonce and ciphertext
}

// Keyring seals values under its newest key, and opens values sealed under any of its keys. It is
// immutable and safe for concurrent use. A nil Keyring is empty.
type Keyring struct{ keys []Key }

// NewKeyring returns a keyring of keys, newest first.
func NewKeyring(keys []Key) (*Keyring, error) {
	for i, k := range keys {
		if len(k.Bytes.Reveal()) != KeySize {
			return nil, fmt.Errorf("the secret key %q is not %d bytes long", k.ID, KeySize)
		}
		if slices.ContainsFunc(keys[:i], func(other Key) bool { return other.ID == k.ID }) {
			return nil, fmt.Errorf("there are two secret keys %q", k.ID)
		}
	}
	return &Keyring{keys: slices.Clone(keys)}, nil
}

// Newest returns the ID of the sealing key; empty: the keyring has none.
func (r *Keyring) Newest() string {
	if r == nil || len(r.keys) == 0 {
		return ""
	}
	return r.keys[0].ID
}

// Seal encrypts a value for a identity. The error is [ErrNoKeys] if the keyring is empty.
func (r *Keyring) Seal(at Identity, value string) (Sealed, error) {
	if r.Newest() == "" {
		return Sealed{}, ErrNoKeys
	}
	key := r.keys[0]
	box, err := key.box(at)
	if err != nil {
		return Sealed{}, err
	}
	nonce := make([]byte, box.NonceSize(), box.NonceSize()+len(value)+box.Overhead())
	_, _ = rand.Read(nonce) // Never fails.
	return Sealed{KeyID: key.ID, Data: box.Seal(nonce, nonce, []byte(value), at.bound(key.ID))}, nil
}

// Open decrypts a value that was sealed for a identity. The error is an [ErrUnreadable] that names
// the key, never the value.
func (r *Keyring) Open(at Identity, s Sealed) (Text, error) {
	if r == nil {
		r = &Keyring{}
	}
	i := slices.IndexFunc(r.keys, func(k Key) bool { return k.ID == s.KeyID })
	if i < 0 {
		return Text{}, fmt.Errorf("%w: %q is missing", ErrUnreadable, s.KeyID)
	}
	box, err := r.keys[i].box(at)
	if err != nil {
		return Text{}, err
	}
	if len(s.Data) < box.NonceSize() {
		return Text{}, fmt.Errorf("%w: what is stored is too short", ErrUnreadable)
	}
	value, err := box.Open(nil, s.Data[:box.NonceSize()], s.Data[box.NonceSize():], at.bound(s.KeyID))
	if err != nil {
		return Text{}, fmt.Errorf("%w: %q is another key here, or what is stored was changed", ErrUnreadable, s.KeyID)
	}
	return NewText(string(value)), nil
}

// box returns the cipher of a key for a tenant and a kind.
func (k Key) box(at Identity) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, []byte(k.Bytes.Reveal()), nil, "rubato "+string(at.Kind)+" "+hex.EncodeToString(at.Tenant[:]), KeySize)
	if err != nil {
		return nil, fmt.Errorf("deriving a key from %q: %w", k.ID, err)
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, fmt.Errorf("preparing the cipher of %q: %w", k.ID, err)
	}
	return cipher.NewGCM(block)
}

// bound returns the additional data that a sealed value is authenticated with. No part holds a NUL,
// so that distinct identities have distinct encodings.
func (p Identity) bound(keyID string) []byte {
	return []byte(string(p.Kind) + "\x00" + hex.EncodeToString(p.Tenant[:]) + "\x00" + keyID + "\x00" + p.Name)
}
