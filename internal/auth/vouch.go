package auth

import "context"

type vouchedKey struct{}

// Vouch returns a context in which requests act for a principal that was authenticated without an
// API key in a header, e.g. by a session. Scopes, limits and the audit log apply as to the key
// itself.
func Vouch(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, vouchedKey{}, p)
}

// Vouched returns the principal that ctx vouches for. The context of a plain connection has no
// principal.
func Vouched(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(vouchedKey{}).(Principal)
	return p, ok
}
