package httpapi

import (
	"context"
	"encoding/base64"

	"rubato/internal/endpoints"
	"rubato/internal/httpapi/api"
	"rubato/internal/secrets"
)

// PutSecret stores a secret, or gives it another value.
func (s *Server) PutSecret(ctx context.Context, r api.PutSecretRequestObject) (api.PutSecretResponseObject, error) {
	wanted := secrets.Request{
		Name:        r.Name,
		Value:       secrets.NewText(r.Body.Value),
		Description: r.Body.Description,
	}
	if in := inputOf(ctx); in.bad() {
		return nil, in.refuse(wanted.Check())
	}
	stored, created, err := s.secrets.Put(ctx, actorOf(ctx), wanted)
	if err != nil {
		return nil, err
	}
	if created {
		return api.PutSecret201JSONResponse{
			Body: secretAnswer(stored), Headers: api.PutSecret201ResponseHeaders{Location: "/v1/secrets/" + stored.Name},
		}, nil
	}
	return api.PutSecret200JSONResponse(secretAnswer(stored)), nil
}

// ListSecrets returns a page of secrets, without their values.
func (s *Server) ListSecrets(ctx context.Context, r api.ListSecretsRequestObject) (api.ListSecretsResponseObject, error) {
	f := secrets.Filter{TenantID: principalOf(ctx).TenantID, Limit: limitOf(r.Params.Limit) + 1}
	digest := filterDigest("secrets", f.TenantID)
	after, err := resumeName(r.Params.Cursor, digest, secrets.ValidName)
	if err != nil {
		return nil, err
	}
	f.After = after
	found, err := s.secrets.List(ctx, f)
	if err != nil {
		return nil, err
	}
	out := api.SecretList{Items: []api.Secret{}}
	found, more := page(found, f.Limit)
	for _, found := range found {
		out.Items = append(out.Items, secretAnswer(found))
	}
	if more {
		out.NextCursor = new(nameCursor(found[len(found)-1].Name, digest))
	}
	return api.ListSecrets200JSONResponse(out), nil
}

// GetSecret returns a secret, without its value.
func (s *Server) GetSecret(ctx context.Context, r api.GetSecretRequestObject) (api.GetSecretResponseObject, error) {
	found, err := s.secrets.Get(ctx, actorOf(ctx), r.Name)
	if err != nil {
		return nil, err
	}
	return api.GetSecret200JSONResponse(secretAnswer(found)), nil
}

// DeleteSecret deletes a secret.
func (s *Server) DeleteSecret(ctx context.Context, r api.DeleteSecretRequestObject) (api.DeleteSecretResponseObject, error) {
	force := r.Params.Force != nil && *r.Params.Force
	if err := s.secrets.Delete(ctx, actorOf(ctx), r.Name, force); err != nil {
		return nil, err
	}
	return api.DeleteSecret204Response{}, nil
}

func secretAnswer(s secrets.Secret) api.Secret {
	out := api.Secret{
		Name:           s.Name,
		Description:    s.Description,
		Version:        s.Version,
		UsedBy:         int32(s.Endpoints + s.Rules),
		EncryptedUnder: s.KeyID,
		CreatedAt:      s.CreatedAt.UTC(),
		CreatedBy:      s.CreatedBy,
		UpdatedAt:      s.UpdatedAt.UTC(),
		UpdatedBy:      s.UpdatedBy,
		LastUsedAt:     shown(s.LastUsedAt),
	}
	if s.LastUsedBy != [16]byte{} {
		out.LastUsedBy = new(endpoints.ID(s.LastUsedBy).String())
	}
	return out
}

// nameCursor is cursor for a list by name.
func nameCursor(last string, digest [digestSize]byte) string {
	return base64.RawURLEncoding.EncodeToString(append(digest[:], last...))
}

// resumeName is resume for a list by name. valid reports whether a text is a name.
func resumeName(given *string, digest [digestSize]byte, valid func(string) bool) (last string, err error) {
	if given == nil {
		return "", nil
	}
	raw, err := decodeCursor(*given)
	if err != nil {
		return "", err
	}
	if !valid(string(raw[digestSize:])) {
		return "", noCursor()
	}
	if [digestSize]byte(raw) != digest {
		return "", invalidCursor("belongs to another list; start again without a cursor")
	}
	return string(raw[digestSize:]), nil
}
