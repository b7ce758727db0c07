package auth

// Trusted returns how many keys the cache holds.
func (a *Authenticator) Trusted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.trusted)
}
