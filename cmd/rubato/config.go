package main

import (
	"runtime"

	"github.com/alecthomas/kong"

	"rubato/internal/app"
	"rubato/internal/config"
)

// configCmd is `rubato config`.
type configCmd struct{}

// settingRow is an effective setting and its source.
type settingRow struct {
	config.Row

	Source string `json:"source"`
}

// Run prints the effective settings, with secrets redacted.
func (*configCmd) Run(s *session) error {
	settings, err := s.settings(config.Program{})
	if err != nil {
		return err
	}
	var list []settingRow
	for _, row := range settings.Redacted() {
		list = append(list, settingRow{Row: row, Source: config.Source(s.environ, row.Name)})
	}
	if s.json {
		return s.print(map[string]any{"items": list})
	}
	rows := make([][]string, 0, len(list))
	for _, row := range list {
		value := row.Value
		if value == "" {
			value = "-"
		}
		rows = append(rows, []string{row.Name, value, row.Source, row.Doc})
	}
	return s.table([]string{"NAME", "VALUE", "SOURCE", "MEANING"}, rows)
}

// versionCmd is `rubato version`.
type versionCmd struct{}

// Run prints the version and the commit of this program.
func (*versionCmd) Run(s *session) error {
	version, commit := app.Version(), app.Commit()
	if s.json {
		return s.print(map[string]string{"version": version, "commit": commit, "go": runtime.Version()})
	}
	if commit == "" {
		return s.say("rubato %s (%s)", version, runtime.Version())
	}
	return s.say("rubato %s (commit %s, %s)", version, commit, runtime.Version())
}

// versionFlag is --version, which needs no command.
type versionFlag bool

// BeforeReset prints the version and exits, because kong would otherwise require a command.
func (versionFlag) BeforeReset(ctx *kong.Context, s *session) error {
	s.json = asksForJSON(ctx.Args)
	if err := new(versionCmd).Run(s); err != nil {
		return err
	}
	ctx.Exit(app.ExitOK)
	return nil
}
