package pg

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"rubato/internal/errs"
	"rubato/migrations"
)

// Migration is one version of the schema. AppliedAt is zero if it is not applied.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time
}

// A migration that waits for a table lock blocks all later queries of that table, readers too.
// Therefore it waits only briefly and retries after a pause in which the queued queries proceed.
const (
	migrateLockWait = 2 * time.Second
	migratePause    = 3 * time.Second
	// migrateTries is about a minute. A lock held for longer, such as a backup's, rarely ends soon.
	migrateTries = 12
)

// MigrateUp applies all pending migrations and returns the names of the applied ones, even if it
// then fails. Concurrent calls wait for each other (advisory lock).
func MigrateUp(ctx context.Context, url string) (applied []string, err error) {
	err = withProvider(ctx, url, func(p *goose.Provider, _ *sql.DB) error {
		if applied, err = migrateWithRetry(ctx, p); err != nil {
			return fmt.Errorf("applying migrations: %w", err)
		}
		return nil
	})
	return applied, err
}

// migrateWithRetry applies pending migrations and retries after a lock timeout. Each migration is
// atomic, so a retry continues after the last applied one.
func migrateWithRetry(ctx context.Context, p *goose.Provider) (applied []string, err error) {
	for range migrateTries {
		var results []*goose.MigrationResult
		results, err = p.Up(ctx)
		if partial, found := errors.AsType[*goose.PartialError](err); found {
			results = partial.Applied
		}
		for _, r := range results {
			applied = append(applied, r.Source.Path)
		}
		if !isLockTimeout(err) {
			return applied, err
		}
		select {
		case <-ctx.Done():
			return applied, err
		case <-time.After(migratePause):
		}
	}
	return applied, lockTimeoutError(err)
}

func isLockTimeout(err error) bool {
	pg, found := errors.AsType[*pgconn.PgError](err)
	return found && pg.Code == "55P03" // lock_not_available
}

func lockTimeoutError(err error) error {
	return errs.Wrap(err, errs.Unavailable, "another transaction, such as a backup, keeps a table locked; "+
		"the remaining migrations were not applied: end that transaction (see pg_stat_activity) or wait for it, then migrate again")
}

// MigrateDown reverts the newest migration and returns its name, or an empty name if none is
// applied. The data of the dropped tables is lost.
func MigrateDown(ctx context.Context, url string) (name string, err error) {
	err = withProvider(ctx, url, func(p *goose.Provider, _ *sql.DB) error {
		version, err := p.GetDBVersion(ctx)
		if err != nil || version == 0 {
			return err
		}
		result, err := p.Down(ctx)
		if isLockTimeout(err) {
			err = lockTimeoutError(err)
		}
		if err != nil {
			return fmt.Errorf("reverting migration %d: %w", version, err)
		}
		name = result.Source.Path
		return nil
	})
	return name, err
}

// MigrateStatus returns all migrations of this program, oldest first. It is read-only and does not
// wait for a running migration, because every program calls it at startup.
func MigrateStatus(ctx context.Context, url string) (list []Migration, err error) {
	err = withProvider(ctx, url, func(p *goose.Provider, db *sql.DB) error {
		applied, err := appliedMigrations(ctx, db)
		if err != nil {
			return fmt.Errorf("reading the state of migrations: %w", Translate(err))
		}
		for _, s := range p.ListSources() {
			list = append(list, Migration{
				Version:   s.Version,
				Name:      s.Path,
				AppliedAt: applied[s.Version],
			})
		}
		return nil
	})
	return list, err
}

// appliedMigrations returns when each version was applied. It returns nil if the database was never
// migrated, because the table does not exist then.
func appliedMigrations(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	rows, err := db.QueryContext(ctx, "SELECT version_id, tstamp FROM goose_db_version WHERE is_applied")
	if pg, found := errors.AsType[*pgconn.PgError](err); found && pg.Code == "42P01" { // undefined_table
		return nil, nil //nolint:nilnil // Nothing is applied.
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	applied := map[int64]time.Time{}
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return nil, err
		}
		applied[version] = at
	}
	return applied, rows.Err()
}

// SchemaKey returns a digest of all migrations. Equal keys mean equal schemas.
func SchemaKey() string {
	digest := sha256.New()
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		panic(err) // The pattern is constant.
	}
	for _, name := range names {
		text, err := migrations.FS.ReadFile(name)
		if err != nil {
			panic(err) // Embedded files can be read.
		}
		fmt.Fprintf(digest, "%s %d\n", name, len(text))
		digest.Write(text)
	}
	return hex.EncodeToString(digest.Sum(nil))[:16]
}

func withProvider(ctx context.Context, url string, act func(*goose.Provider, *sql.DB) error) error {
	cc, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("reading the database URL: %w", redactURL(err))
	}
	boundConnect(cc)
	cc.RuntimeParams["lock_timeout"] = strconv.FormatInt(migrateLockWait.Milliseconds(), 10)
	db := stdlib.OpenDB(*cc)
	defer db.Close()
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("preparing the lock of migrations: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return lackingRight(Translate(err), cc.User)
	}
	return lackingRight(act(provider, db), cc.User)
}
