package auth

// Trusted returns how many keys the cache holds.
func (a *Authenticator) Trusted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.trusted)
}

// Addresses returns of how many client addresses failures are kept.
func (a *Attempts) Addresses() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.clients)
}
