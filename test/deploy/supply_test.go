package deploy

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// licence is an accepted licence of a linked module.
type licence struct {
	name string
	text *regexp.Regexp // pattern that matches this licence and no other in the list
}

// licences returns the licences that may be linked into a program under the Apache License: they
// demand notices, and not the source of the linking program. The first match counts.
func licences() []licence {
	words := func(text string) *regexp.Regexp {
		return regexp.MustCompile(`(?i)` + strings.ReplaceAll(text, " ", `\s+`))
	}
	return []licence{
		{"Apache-2.0", words(`Apache License,? Version 2\.0`)},
		{"MPL-2.0", words(`Mozilla Public License,? Version 2\.0`)},
		{"BSD-3-Clause", words(`Redistribution and use in source and binary forms[\s\S]*Neither the name`)},
		{"BSD-2-Clause", words(`Redistribution and use in source and binary forms`)},
		{"MIT", words(`Permission is hereby granted, free of charge, to any person obtaining a copy`)},
		{"ISC", words(`Permission to use, copy, modify, and(/or)? distribute this software for any purpose with or without fee`)},
	}
}

// licenceOf returns the name of a text's licence, or "".
func licenceOf(text string) string {
	if regexp.MustCompile(`(?i)GNU\s+(Affero\s+|Lesser\s+)?General\s+Public\s+License`).MatchString(text) && !strings.Contains(text, "Secondary License") {
		return ""
	}
	for _, l := range licences() {
		if l.text.MatchString(text) {
			return l.name
		}
	}
	return ""
}

// linked is a module with packages in the programs.
type linked struct{ Path, Version, Dir string }

func linkedModules(t *testing.T) map[string]linked {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Module", "./cmd/...")
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	modules := map[string]linked{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var pkg struct {
			Module *struct {
				linked

				Main bool
			}
		}
		require.NoError(t, decoder.Decode(&pkg))
		if pkg.Module != nil && !pkg.Module.Main {
			modules[pkg.Module.Path] = pkg.Module.linked
		}
	}
	return modules
}

// TestModulesHaveALicenceThatMayBeShipped requires an accepted licence of every module that is
// linked into a program.
func TestModulesHaveALicenceThatMayBeShipped(t *testing.T) {
	t.Parallel()
	modules := linkedModules(t)
	require.Greater(t, len(modules), 40)
	for path, module := range modules {
		files, err := filepath.Glob(filepath.Join(module.Dir, "[LlCc][IiOo][CcPp]*"))
		require.NoError(t, err)
		var found []string
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil { // A folder with the licences of the module's parts.
				continue
			}
			if name := licenceOf(string(text)); name != "" {
				found = append(found, name)
			}
		}
		require.NotEmpty(t, found, "%s %s has no licence of the allow list in %v", path, module.Version, files)
	}
}

func TestLicencesThatAskForTheSourceAreNotTaken(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Apache-2.0", licenceOf(string(read(t, "LICENSE"))))
	for _, text := range []string{
		"GNU GENERAL PUBLIC LICENSE\nVersion 3", "GNU AFFERO GENERAL PUBLIC LICENSE", "GNU Lesser General Public License",
		"Business Source License 1.1", "All rights reserved.",
	} {
		require.Empty(t, licenceOf(text))
	}
}

// TestVulnerabilityStageDistinguishesFindingsFromMissingDatabase runs the stage of .ci/run with
// programs that exit like govulncheck.
func TestVulnerabilityStageDistinguishesFindingsFromMissingDatabase(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		program string
		code    int
		says    string
	}{
		"Nothing":   {`echo "No vulnerabilities found."`, 0, "No vulnerabilities found."},
		"Findings":  {`echo "Vulnerability #1: GO-2026-0001"; exit 3`, 3, "GO-2026-0001"},
		"NoNetwork": {`echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.example": no such host' >&2; exit 1`, 0, "NOT CHECKED: the vulnerability database"},
		"NoBuild":   {`echo 'govulncheck: loading packages: syntax error' >&2; exit 1`, 1, "syntax error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), filepath.Join(root, ".ci/vulnerabilities"), "sh", "-c", tc.program).CombinedOutput()
			code := 0
			if failed, is := errors.AsType[*exec.ExitError](err); is {
				code = failed.ExitCode()
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.code, code)
			require.Contains(t, string(out), tc.says)
		})
	}
	require.Contains(t, string(read(t, ".ci/run")), ".ci/vulnerabilities supply govulncheck")
}

// TestEveryModuleOfTheRepositoryIsKeptUpToDate requires that the settings of Renovate cover every
// go.mod file and exclude the pinned modules.
func TestEveryModuleOfTheRepositoryIsKeptUpToDate(t *testing.T) {
	t.Parallel()
	var settings struct {
		IgnorePaths  []string `json:"ignorePaths"`
		PackageRules []struct {
			Names   []string `json:"matchPackageNames"`
			Allowed string   `json:"allowedVersions"`
		} `json:"packageRules"`
	}
	require.NoError(t, json.Unmarshal(read(t, "renovate.json"), &settings))
	require.Empty(t, settings.IgnorePaths)
	allowed := map[string]string{}
	for _, rule := range settings.PackageRules {
		for _, name := range rule.Names {
			allowed[name] = rule.Allowed
		}
	}
	require.Equal(t, "<3.29.0", allowed["github.com/pressly/goose/v3"], "3.29 breaks go mod tidy beside CEL")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "go.mod" {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(text), "\ngo 1.26.0\n", "%s must build with the Go of the image", path)
		}
		return err
	}))
}
