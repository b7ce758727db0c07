package main

import (
	"context"
	"strconv"

	"rubato/client"
)

type secretsGetCmd struct {
	serverFlag

	Name string `arg:"" help:"Its name."`
}

// Run prints what is known of a secret, which is not its value.
func (cmd *secretsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetSecretWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	if s.json {
		return s.print(raw)
	}
	var found client.Secret
	if err := decode(raw, &found); err != nil {
		return err
	}
	return s.facts([][2]string{
		{"name", found.Name},
		{"version", strconv.FormatInt(found.Version, 10)},
		{"description", found.Description},
		{"stored by", found.CreatedBy},
		{"encrypted under", found.EncryptedUnder},
		{"last used", instant(found.LastUsedAt)},
		{"last used by", text(found.LastUsedBy)},
	})
}
