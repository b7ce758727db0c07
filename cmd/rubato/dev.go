package main

import (
	"context"
	"fmt"
	"strings"

	"rubato/internal/app"
	"rubato/internal/app/dev"
)

// devCmd is `rubato dev`.
type devCmd struct {
	Listen  string `placeholder:"HOST:PORT" help:"Listen address. Default: RUBATO_LISTEN, otherwise 127.0.0.1:8080. Port 0 chooses a free port."`
	DataDir string `placeholder:"DIR" help:"Directory for data and credentials. Default: the user's directory for application data."`
	Demo    bool   `help:"Also serve a small target with changing responses, and register six endpoints on it."`
}

// Run serves until a termination signal.
func (cmd *devCmd) Run(ctx context.Context, s *session) error {
	settings, err := s.settings(dev.Defaults())
	if err != nil {
		return err
	}
	if cmd.Listen != "" {
		settings.API.Listen = cmd.Listen
	}
	if s.key != "" {
		settings.Client.Key = s.key
	}
	home := dev.FindHome(s.environ)
	logger := app.NewLogger(s.stderr, settings.Log)
	if cmd.DataDir == "" {
		if cmd.DataDir, err = home.DataDir(); err != nil {
			return err
		}
		if home.Temporary() {
			logger.Warn("no home directory found; data is stored in a temporary directory", "dir", cmd.DataDir)
		}
	}
	return app.Interrupted(ctx, dev.Server{
		Settings:  settings,
		DataDir:   cmd.DataDir,
		Demo:      cmd.Demo,
		Home:      home,
		Logger:    logger,
		Listening: func(c dev.Credentials) { _ = s.banner(c, cmd.DataDir) },
		Ready:     func(c dev.Credentials) { _ = s.ready(c, cmd.DataDir) },
	}.Run(ctx))
}

// banner prints the address, the key and an example of a request. It comes before the server is
// ready.
func (s *session) banner(c dev.Credentials, dataDir string) error {
	if s.json {
		return nil
	}
	return s.say("Rubato on %s\n  key      %s\n  data     %s\n  console  %s (opens once)\n  try      %s", c.URL, c.Key, dataDir, c.Console, curl(c))
}

// ready reports that the server accepts requests and runs endpoints. With JSON output, it prints
// the credentials here, because banner prints none then.
func (s *session) ready(c dev.Credentials, dataDir string) error {
	if !s.json {
		return s.say("ready")
	}
	return s.print(map[string]any{"url": c.URL, "key": c.Key, "dataDir": dataDir, "console": c.Console, "ready": true})
}

// curl returns a shell command that registers an endpoint.
func curl(c dev.Credentials) string {
	return fmt.Sprintf(`curl -sS %s/v1/endpoints -H %s -H 'Content-Type: application/json' -d '{"name":"hello","url":"https://example.com/","baselineIntervalMs":60000}'`,
		c.URL, quote("Authorization: Bearer "+c.Key))
}

// quote returns text as a single-quoted shell word.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
