package secrets

import "errors"

// ErrUnreadable is in an error where a sealed value cannot be opened: its key is not in the keyring, or is another one.
var ErrUnreadable = errors.New("it is encrypted under a key that this program does not have")
