package main

import (
	"context"
	"time"

	"rubato/client"
)

// signingKeysCmd is `rubato signing-keys`.
type signingKeysCmd struct {
	Create signingKeysCreateCmd `cmd:"" help:"Make a signing key and print it, this once. The one before it stays live, so that receivers can learn the new one."`
	List   signingKeysListCmd   `cmd:"" help:"Print the live signing keys, two at most, without their secrets."`
	Delete signingKeysDeleteCmd `cmd:"" help:"Delete a signing key. Nothing is signed under it any more."`
}

type (
	signingKeysCreateCmd struct {
		serverFlag

		Expires time.Time      `placeholder:"TIME" help:"When it ends, such as 2027-01-01T00:00:00Z. Default: never."`
		Overlap *time.Duration `placeholder:"DURATION" help:"How long the key before it stays live, such as 72h; 0s: it ends now. Default: until it is deleted."`
	}
	signingKeysListCmd struct {
		serverFlag
	}
	signingKeysDeleteCmd struct {
		serverFlag

		Key string `arg:"" help:"The id of the signing key (sgk_...)."`
	}
)

// Run makes a signing key.
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
			{"", "give it to the receivers now: it is shown this once"},
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
