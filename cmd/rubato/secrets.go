package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"

	"rubato/client"
	"rubato/internal/app"
)

// secretsCmd is `rubato secrets`.
type secretsCmd struct {
	Set    secretsSetCmd    `cmd:"" help:"Create a secret or replace its value, read from standard input or a file. Never from the command line, which other users can see."`
	Get    secretsGetCmd    `cmd:"" help:"Print one secret, without its value."`
	List   secretsListCmd   `cmd:"" help:"Print secrets, sorted by name, without their values."`
	Delete secretsDeleteCmd `cmd:"" help:"Delete a secret."`
	Rekey  secretsRekeyCmd  `cmd:"" help:"Re-encrypt all secrets under the newest of RUBATO_SECRET_KEYS, in the database in DATABASE_URL. Other programs may keep running."`
}

type (
	secretsSetCmd struct {
		serverFlag

		Name        string  `arg:"" help:"Name: lower-case letters, digits, dots, hyphens and underscores."`
		FromFile    string  `placeholder:"FILE" help:"File with the value. Default: standard input."`
		KeepNewline bool    `help:"Keep the line break at the end of the value, which is removed otherwise."`
		Description *string `placeholder:"TEXT" help:"Description. Default: unchanged."`
	}
	secretsGetCmd struct {
		serverFlag

		Name string `arg:"" help:"Name."`
	}
	secretsListCmd struct {
		serverFlag

		Limit  int32  `default:"50" help:"Maximum number of results."`
		Cursor string `help:"Cursor of the next page, from the previous list."`
	}
	secretsDeleteCmd struct {
		serverFlag

		Name  string `arg:"" help:"Name."`
		Force bool   `help:"Delete it even if endpoints or notice rules use it; their runs and notices then fail."`
	}
	secretsRekeyCmd struct{}
)

const (
	// maxSecretValue is the maximum length of a value in bytes.
	maxSecretValue = 64 << 10

	// maxSecret bounds the input in bytes: a maximal value, a line end (CR LF), and one byte more,
	// so that the server can refuse a longer value.
	maxSecret = maxSecretValue + 3
)

// Run creates a secret or replaces its value.
func (cmd *secretsSetCmd) Run(ctx context.Context, s *session) error {
	value, err := cmd.value(s)
	if err != nil {
		return err
	}
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.PutSecretWithResponse(ctx, cmd.Name, client.SecretSpec{Value: value, Description: cmd.Description}))
	if err != nil {
		return err
	}
	return show(s, raw, func(stored client.Secret) error {
		return s.say(`%s is stored, version %d; endpoints name it as {{secret "%s"}}`, stored.Name, stored.Version, stored.Name)
	})
}

// value reads the value from the file or from standard input. It removes one line end unless
// --keep-newline is set.
func (cmd *secretsSetCmd) value(s *session) (string, error) {
	from, name := s.stdin, "standard input"
	if cmd.FromFile != "" {
		f, err := os.Open(cmd.FromFile)
		if err != nil {
			return "", usageError{fmt.Sprintf("reading the value: %s", err)}
		}
		defer func() { _ = f.Close() }()
		from, name = f, cmd.FromFile
	}
	text, err := io.ReadAll(io.LimitReader(from, maxSecret))
	if err != nil {
		return "", fmt.Errorf("reading the value from %s: %w", name, err)
	}
	if !cmd.KeepNewline {
		text = withoutLineEnd(text)
	}
	switch {
	case len(text) == 0:
		return "", usageError{name + " is empty: there is no value"}
	// Encoding as JSON would replace invalid UTF-8, so that the stored value would differ.
	case len(text) <= maxSecretValue && !utf8.Valid(text):
		return "", usageError{name + " is not UTF-8 text: encode the value in base64 or PEM"}
	}
	return string(text), nil
}

// withoutLineEnd removes one line end, because editors and echo append one.
func withoutLineEnd(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		text = text[:n-1]
		if n > 1 && text[n-2] == '\r' {
			text = text[:n-2]
		}
	}
	return text
}

// Run prints a secret without its value.
func (cmd *secretsGetCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.GetSecretWithResponse(ctx, cmd.Name))
	if err != nil {
		return err
	}
	return show(s, raw, func(x client.Secret) error {
		return s.facts([][2]string{
			{"name", x.Name},
			{"description", dash(x.Description)},
			{"version", strconv.FormatInt(x.Version, 10)},
			{"used by", strconv.Itoa(int(x.UsedBy)) + " endpoints and notice rules"},
			{"last used", dash(instant(x.LastUsedAt))},
			{"updated", instant(&x.UpdatedAt)},
			{"by", x.UpdatedBy},
		})
	})
}

// Run lists secrets.
func (cmd *secretsListCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	raw, err := r.read(r.api.ListSecretsWithResponse(ctx, &client.ListSecretsParams{Limit: &cmd.Limit, Cursor: given(cmd.Cursor)}))
	if err != nil {
		return err
	}
	return list(s, raw, []string{"NAME", "VERSION", "USED BY", "LAST USED", "UPDATED", "BY", "DESCRIPTION"}, func(x client.Secret) []string {
		return []string{
			x.Name, strconv.FormatInt(x.Version, 10), strconv.Itoa(int(x.UsedBy)), dash(instant(x.LastUsedAt)), instant(&x.UpdatedAt),
			x.UpdatedBy, dash(x.Description),
		}
	})
}

// Run deletes a secret.
func (cmd *secretsDeleteCmd) Run(ctx context.Context, s *session) error {
	r, err := s.connect()
	if err != nil {
		return err
	}
	params := &client.DeleteSecretParams{}
	if cmd.Force {
		params.Force = new(true)
	}
	if _, err := r.read(r.api.DeleteSecretWithResponse(ctx, cmd.Name, params)); err != nil {
		return err
	}
	return s.deleted(cmd.Name)
}

// Run encrypts all values again with the newest key.
func (*secretsRekeyCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.databaseSettings()
	if err != nil {
		return err
	}
	done, failed, err := app.Rekey{Settings: settings, Logger: app.NewLogger(s.stderr, settings.Log)}.Run(ctx)
	if err != nil {
		return err
	}
	if s.json {
		err = s.print(map[string]any{"rekeyed": done, "failed": append([]string{}, failed...)})
	} else {
		err = s.say("%d values are encrypted with the newest key", done)
	}
	for _, f := range failed {
		_, _ = fmt.Fprintln(s.stderr, f)
	}
	if len(failed) > 0 {
		return errors.Join(err, fmt.Errorf("%d values cannot be decrypted with these keys and were not changed", len(failed)))
	}
	return err
}
