package main

import (
	"context"
	"time"

	"rubato/client"
)

// signingKeysCmd is `rubato signing-keys`.
type signingKeysCmd struct {
	Create signingKeysCreateCmd `cmd:"" help:"Create a signing key and print it, only once. The previous key stays valid, so that receivers can add the new one."`
	List   signingKeysListCmd   `cmd:"" help:"Print the valid signing keys, two at most, without their secrets."`
	Delete signingKeysDeleteCmd `cmd:"" help:"Delete a signing key. Requests are no longer signed with it."`
}

type (
	signingKeysCreateCmd struct {
		serverFlag

		Expires time.Time      `placeholder:"TIME" help:"Expiry, such as 2027-01-01T00:00:00Z. Default: never."`
		Overlap *time.Duration `placeholder:"DURATION" help:"How long the previous key stays valid, such as 72h; 0s ends it now. Default: until it is deleted."`
	}
	signingKeysListCmd struct {
		serverFlag
	}
	signingKeysDeleteCmd struct {
		serverFlag

		Key string `arg:"" help:"Signing key id (sgk_...)."`
	}
)

// Run creates a signing key and prints its secret.
func (cmd *signingKeysCreateCmd) Run(ctx context.Context, s *session) error {
	body := client.SigningKeySpec{ExpiresAt: since(cmd.Expires)}
	if cmd.Overlap != nil {
		body.OverlapMs = new(cmd.Overlap.Milliseconds())
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CreateSigningKeyWithResponse(ctx, body))
	if err != nil {
		return err
	}
	return show(s, raw, func(k client.SigningKeyWithSecret) error {
		return s.facts([][2]string{
			{"id", k.ID},
			{"expires", instant(k.ExpiresAt)},
			{"secret", k.Secret},
			{"", "store it now: it is not shown again"},
		})
	})
}

// Run lists signing keys.
func (*signingKeysListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListSigningKeysWithResponse(ctx))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"ID", "CREATED", "BY", "EXPIRES"}, func(k client.SigningKey) []string {
		return []string{k.ID, instant(&k.CreatedAt), k.CreatedBy, dash(instant(k.ExpiresAt))}
	})
}

// Run deletes a signing key.
func (cmd *signingKeysDeleteCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.DeleteSigningKeyWithResponse(ctx, cmd.Key)); err != nil {
		return err
	}
	return s.deleted(cmd.Key)
}
