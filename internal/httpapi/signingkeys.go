package httpapi

import (
	"context"
	"time"

	"rubato/internal/httpapi/api"
	"rubato/internal/signing"
)

// CreateSigningKey makes a signing key.
func (s *Server) CreateSigningKey(ctx context.Context, r api.CreateSigningKeyRequestObject) (api.CreateSigningKeyResponseObject, error) {
	wanted := signing.Request{}
	if r.Body != nil {
		wanted.ExpiresAt = given(r.Body.ExpiresAt)
		if r.Body.OverlapMs != nil {
			wanted.Overlap = new(time.Duration(0))
			setSpan(wanted.Overlap, r.Body.OverlapMs)
		}
	}
	if in := inputOf(ctx); in.bad() { // Nothing is stored, so no clock decides anything.
		return nil, in.refuse(wanted.Check(time.Now()))
	}
	made, secret, err := s.signing.Create(ctx, actorOf(ctx), wanted)
	if err != nil {
		return nil, err
	}
	k := signingKeyAnswer(made)
	return api.CreateSigningKey201JSONResponse{
		ID:        k.ID,
		CreatedAt: k.CreatedAt,
		CreatedBy: k.CreatedBy,
		ExpiresAt: k.ExpiresAt,
		Secret:    secret.Reveal(),
	}, nil
}

// ListSigningKeys returns the live signing keys.
func (s *Server) ListSigningKeys(ctx context.Context, _ api.ListSigningKeysRequestObject) (api.ListSigningKeysResponseObject, error) {
	found, err := s.signing.List(ctx, actorOf(ctx))
	if err != nil {
		return nil, err
	}
	out := api.SigningKeyList{Items: []api.SigningKey{}}
	for _, k := range found {
		out.Items = append(out.Items, signingKeyAnswer(k))
	}
	return api.ListSigningKeys200JSONResponse(out), nil
}

// DeleteSigningKey deletes a signing key.
func (s *Server) DeleteSigningKey(ctx context.Context, r api.DeleteSigningKeyRequestObject) (api.DeleteSigningKeyResponseObject, error) {
	id, err := signing.ParseKeyID(r.ID)
	if err != nil {
		return nil, err
	}
	if err := s.signing.Delete(ctx, actorOf(ctx), id); err != nil {
		return nil, err
	}
	return api.DeleteSigningKey204Response{}, nil
}

func signingKeyAnswer(k signing.Key) api.SigningKey {
	return api.SigningKey{
		ID:        k.ID.String(),
		CreatedAt: k.CreatedAt.UTC(),
		CreatedBy: k.CreatedBy,
		ExpiresAt: shown(k.ExpiresAt),
	}
}
