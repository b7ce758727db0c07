package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"rubato/client"
)

// keysCmd is `rubato keys`.
type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Create an API key and print its secret. The secret is shown only once."`
	Get    keysGetCmd    `cmd:"" help:"Print one API key, without its secret."`
	List   keysListCmd   `cmd:"" help:"Print API keys, newest first, without secrets."`
	Rotate keysRotateCmd `cmd:"" help:"Replace the secret of an API key and print it. The secret is shown only once."`
	Revoke keysRevokeCmd `cmd:"" help:"Revoke an API key. It stops working within 5 s."`
}

type (
	keysCreateCmd struct {
		serverFlag

		Name    string         `required:"" help:"Display name. Changes made with the key show it as their author."`
		Scope   []string       `required:"" enum:"read,write,admin" help:"Permissions: read, write or admin, each including those before it."`
		Expires time.Time      `xor:"end" placeholder:"TIME" help:"Expiry, such as 2027-01-01T00:00:00Z. Default: never."`
		For     *time.Duration `xor:"end" placeholder:"DURATION" help:"Lifetime, such as 30d."`
	}
	keysGetCmd struct {
		serverFlag

		Key string `arg:"" help:"Key id (key_...)."`
	}
	keysListCmd struct {
		serverFlag

		State  string `enum:",active,expired,revoked" default:"" placeholder:"STATE" help:"Filter by state: active, expired or revoked."`
		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	keysRotateCmd struct {
		serverFlag

		Key     string        `arg:"" help:"Key id (key_...)."`
		Overlap time.Duration `placeholder:"DURATION" help:"How long the previous secret stays valid, up to 24h. Default: not at all."`
	}
	keysRevokeCmd struct {
		serverFlag

		Key string `arg:"" help:"Key id (key_...)."`
	}
)

// Run creates a key and prints its secret.
func (cmd *keysCreateCmd) Run(ctx context.Context, s *session) error {
	body := client.KeySpec{Name: cmd.Name}
	for _, scope := range cmd.Scope {
		body.Scopes = append(body.Scopes, client.Scope(scope))
	}
	if cmd.For != nil {
		cmd.Expires = time.Now().Add(*cmd.For)
	}
	body.ExpiresAt = since(cmd.Expires)
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.CreateKeyWithResponse(ctx, body))
	if err != nil {
		return err
	}
	return s.printSecret(raw)
}

// Run replaces the secret of a key and prints it.
func (cmd *keysRotateCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.RotateKeyWithResponse(ctx, cmd.Key, client.KeyRotation{OverlapMs: new(cmd.Overlap.Milliseconds())}))
	if err != nil {
		return err
	}
	return s.printSecret(raw)
}

// printSecret prints a key with its secret.
func (s *session) printSecret(raw json.RawMessage) error {
	return show(s, raw, func(k client.KeyWithSecret) error {
		return s.facts([][2]string{
			{"id", k.ID},
			{"name", k.Name},
			{"scopes", scopes(k.Scopes)},
			{"expires", instant(k.ExpiresAt)},
			{"secret", k.Secret},
			{"", "store the secret now: it is not shown again"},
		})
	})
}

// Run prints a key without its secret.
func (cmd *keysGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetKeyWithResponse(ctx, cmd.Key))
	if err != nil {
		return err
	}
	return show(s, raw, func(k client.Key) error {
		return s.facts([][2]string{
			{"id", k.ID},
			{"name", k.Name},
			{"scopes", scopes(k.Scopes)},
			{"state", string(k.State)},
			{"prefix", k.Prefix},
			{"last used", instant(k.LastUsedAt)},
			{"expires", instant(k.ExpiresAt)},
		})
	})
}

// Run lists keys.
func (cmd *keysListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListKeysWithResponse(ctx, &client.ListKeysParams{
		State:  given(client.KeyState(cmd.State)),
		Limit:  &cmd.Limit,
		Cursor: given(cmd.Cursor),
	}))
	if err != nil {
		return err
	}
	header := []string{"NAME", "SCOPES", "STATE", "PREFIX", "LAST USED", "EXPIRES", "ID"}
	return list(s, raw, header, func(k client.Key) []string {
		return []string{
			k.Name, scopes(k.Scopes), string(k.State), dash(k.Prefix), dash(instant(k.LastUsedAt)), dash(instant(k.ExpiresAt)), k.ID,
		}
	})
}

func scopes(given []client.Scope) string {
	texts := make([]string, 0, len(given))
	for _, scope := range given {
		texts = append(texts, string(scope))
	}
	return strings.Join(texts, ",")
}

// Run revokes a key.
func (cmd *keysRevokeCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	if _, err := r.read(r.api.RevokeKeyWithResponse(ctx, cmd.Key)); err != nil {
		return err
	}
	if s.json {
		return s.print(map[string]string{"revoked": cmd.Key})
	}
	return s.say("%s is revoked", cmd.Key)
}
