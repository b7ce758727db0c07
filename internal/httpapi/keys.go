package httpapi

import (
	"context"
	"time"

	"rubato/internal/auth"
	"rubato/internal/httpapi/api"
)

// CreateKey makes an API key.
func (s *Server) CreateKey(ctx context.Context, r api.CreateKeyRequestObject) (api.CreateKeyResponseObject, error) {
	in := inputOf(ctx)
	wanted := auth.KeyRequest{Name: r.Body.Name, ExpiresAt: given(r.Body.ExpiresAt)}
	for _, scope := range r.Body.Scopes {
		wanted.Scopes = append(wanted.Scopes, auth.Scope(scope))
	}
	if in.bad() { // Nothing is stored, so no clock decides anything.
		return nil, in.refuse(wanted.Check(time.Now()))
	}
	made, secret, err := s.keys.Create(ctx, actorOf(ctx), wanted)
	if err != nil {
		return nil, err
	}
	return api.CreateKey201JSONResponse{
		Body:    withSecret(keyAnswer(made, made.CreatedAt), secret),
		Headers: api.CreateKey201ResponseHeaders{Location: "/v1/keys/" + made.ID.String()},
	}, nil
}

// ListKeys returns a page of keys.
func (s *Server) ListKeys(ctx context.Context, r api.ListKeysRequestObject) (api.ListKeysResponseObject, error) {
	f := auth.KeyFilter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	setWord(&f.State, r.Params.State)
	digest := filterDigest("keys", f.TenantID, f.State)
	before, err := resume(r.Params.Cursor, digest)
	if err != nil {
		return nil, err
	}
	f.Before = before
	found, now, err := s.keys.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.KeyList{Items: []api.Key{}}
	found, more := page(found, f.Limit)
	for _, k := range found {
		out.Items = append(out.Items, keyAnswer(k, now))
	}
	if more {
		out.NextCursor = new(cursor(found[len(found)-1].ID, digest))
	}
	return api.ListKeys200JSONResponse(out), nil
}

// GetKey returns a key.
func (s *Server) GetKey(ctx context.Context, r api.GetKeyRequestObject) (api.GetKeyResponseObject, error) {
	id, err := auth.ParseKeyID(r.ID)
	if err != nil {
		return nil, err
	}
	k, now, err := s.keys.Get(ctx, actorOf(ctx), id)
	if err != nil {
		return nil, err
	}
	return api.GetKey200JSONResponse(keyAnswer(k, now)), nil
}

// RevokeKey ends a key.
func (s *Server) RevokeKey(ctx context.Context, r api.RevokeKeyRequestObject) (api.RevokeKeyResponseObject, error) {
	id, err := auth.ParseKeyID(r.ID)
	if err != nil {
		return nil, err
	}
	if err := s.keys.Revoke(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	return api.RevokeKey204Response{}, nil
}

// RotateKey gives a key a new secret.
func (s *Server) RotateKey(ctx context.Context, r api.RotateKeyRequestObject) (api.RotateKeyResponseObject, error) {
	id, err := auth.ParseKeyID(r.ID)
	if err != nil {
		return nil, err
	}
	overlap := time.Duration(0)
	setSpan(&overlap, r.Body.OverlapMs)
	if in := inputOf(ctx); in.bad() {
		if _, _, err := s.keys.Get(ctx, actorOf(ctx), id); err != nil {
			return nil, err
		}
		return nil, in.refuse(auth.CheckOverlap(overlap))
	}
	if _, _, err := s.keys.Get(ctx, actorOf(ctx), id); err != nil { // A missing key is reported before an invalid body.
		return nil, err
	}
	rotated, secret, err := s.keys.Rotate(ctx, actorOf(ctx), id, overlap)
	if err != nil {
		return nil, err
	}
	answer := keyAnswer(rotated, time.Time{}) // Only a key in force is rotated.
	return api.RotateKey200JSONResponse(withSecret(answer, secret)), nil
}

// keyAnswer returns a key as users see it at an instant.
func keyAnswer(k auth.Key, now time.Time) api.Key {
	out := api.Key{
		ID:         k.ID.String(),
		Name:       k.Name,
		Prefix:     k.Prefix,
		Scopes:     []api.Scope{},
		State:      api.KeyState(k.StateAt(now)),
		CreatedAt:  k.CreatedAt.UTC(),
		ExpiresAt:  shown(k.ExpiresAt),
		LastUsedAt: shown(k.LastUsedAt),
		RevokedAt:  shown(k.RevokedAt),
	}
	for _, scope := range k.Scopes {
		out.Scopes = append(out.Scopes, api.Scope(scope))
	}
	return out
}

func withSecret(k api.Key, secret string) api.KeyWithSecret {
	return api.KeyWithSecret{
		ID:         k.ID,
		Name:       k.Name,
		Prefix:     k.Prefix,
		Scopes:     k.Scopes,
		State:      k.State,
		CreatedAt:  k.CreatedAt,
		ExpiresAt:  k.ExpiresAt,
		LastUsedAt: k.LastUsedAt,
		RevokedAt:  k.RevokedAt,
		Secret:     secret,
	}
}

// keyIDOf parses the key ID of a parameter. A text that is not a key ID is an error of the
// parameter.
func keyIDOf(parameter, text string) (auth.KeyID, error) {
	id, err := auth.ParseKeyID(text)
	if err != nil {
		return id, badParameter(parameter, "invalid_id", "must be a key id, such as key_0193466f-2a10-7c3e-9d41-5a2f6c7d8e90")
	}
	return id, nil
}
