package auth

import "context"

type vouchedKey struct{}

// Vouch returns a context whose requests count as those of a principal that was authenticated by other means than an API key in a header,
// such as by a session. Scopes, limits and the audit log apply as to the key itself.
func Vouch(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, vouchedKey{}, p)
}

// Vouched returns the principal that ctx vouches for. A context that comes from a connection vouches for nobody.
func Vouched(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(vouchedKey{}).(Principal)
	return p, ok
}
