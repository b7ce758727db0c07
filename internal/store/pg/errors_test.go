package pg_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"rubato/internal/claims"
	"rubato/internal/devpg/devpgtest"
	"rubato/internal/endpoints"
	"rubato/internal/errs"
	"rubato/internal/notices"
	"rubato/internal/runs"
	"rubato/internal/secrets"
	"rubato/internal/store/items"
	keystore "rubato/internal/store/keys"
	noticestore "rubato/internal/store/notices"
	"rubato/internal/store/pg"
	"rubato/internal/store/storetest"
	"rubato/internal/waittest"
)

// TestUnverifiableCertificateIsReported requires an error that does not suggest to try again,
// because that does not help against a certificate.
func TestUnverifiableCertificateIsReported(t *testing.T) {
	t.Parallel()
	err := pg.Translate(fmt.Errorf("connecting: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}))
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	require.ErrorContains(t, err, "sslrootcert")
	require.ErrorContains(t, err, "sslmode")
	require.ErrorContains(t, err, "unknown authority")
	require.NotContains(t, err.Error(), "try again")
}

func TestErrorsAreTranslatedByTheirState(t *testing.T) {
	t.Parallel()
	state := func(code string) error {
		return fmt.Errorf("doing something: %w", &pgconn.PgError{Code: code, ConstraintName: "some"})
	}
	for name, tc := range map[string]struct {
		err  error
		want errs.Code
	}{
		"NoRows":              {pgx.ErrNoRows, errs.NotFound},
		"KeyTaken":            {&pgconn.PgError{Code: "23505", ConstraintName: "endpoints_key_unique"}, errs.Conflict},
		"UniqueOtherwise":     {state("23505"), errs.Invalid},
		"CheckViolation":      {state("23514"), errs.Invalid},
		"ForeignKey":          {state("23503"), errs.Invalid},
		"OutOfRange":          {state("22008"), errs.Invalid},
		"NulInText":           {state("22021"), errs.Invalid},
		"ConnectionFailure":   {state("08006"), errs.Unavailable},
		"TooManyConnections":  {state("53300"), errs.Unavailable},
		"DiskFull":            {state("53100"), errs.Unavailable},
		"AdminShutdown":       {state("57P01"), errs.Unavailable},
		"QueryCanceled":       {state("57014"), errs.Unavailable},
		"Serialization":       {state("40001"), errs.Unavailable},
		"Deadlock":            {state("40P01"), errs.Unavailable},
		"LockNotAvailable":    {state("55P03"), errs.Unavailable},
		"IdleInTransaction":   {state("25P03"), errs.Unavailable},
		"ReadOnly":            {state("25006"), errs.Unavailable},
		"PlanOfAnotherSchema": {state("0A000"), errs.Unavailable},
		"SyntaxError":         {state("42601"), errs.Internal},
		"UndefinedTable":      {state("42P01"), errs.Internal},
		"InternalError":       {state("XX000"), errs.Internal},
		"Network":             {&net.OpError{Op: "dial", Err: errors.New("refused")}, errs.Unavailable},
		"Deadline":            {fmt.Errorf("reading: %w", context.DeadlineExceeded), errs.Unavailable},
		"Canceled":            {context.Canceled, errs.Internal},
		"OursPasses":          {errs.New(errs.Forbidden, "no", "no"), errs.Forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := pg.Translate(tc.err)
			require.Equal(t, tc.want, errs.CodeOf(got))
			require.ErrorIs(t, got, tc.err)
		})
	}
	require.NoError(t, pg.Translate(nil))
}

// TestBusyDatabaseDiffersFromUnreachable, because the first needs patience and the second an
// operator.
func TestBusyDatabaseDiffersFromUnreachable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err    error
		reason string
		says   string
	}{
		"StatementTooSlow":   {fmt.Errorf("reading: %w", context.DeadlineExceeded), "database_busy", "did not answer in time"},
		"TransactionTooLong": {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "database_busy", "did not answer in time"},
		"StatementTimeout":   {&pgconn.PgError{Code: "57014"}, "database_busy", "took too long"},
		"LockTimeout":        {&pgconn.PgError{Code: "55P03"}, "database_busy", "nothing was changed"},
		"TooManyConnections": {&pgconn.PgError{Code: "53300"}, "database_busy", "max_connections"},
		"DiskFull":           {&pgconn.PgError{Code: "53100"}, "", "disk of the database is full"},
		"ReadOnly":           {&pgconn.PgError{Code: "25006"}, "", "takes no writes"},
		"Refused":            {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "", "cannot be reached"},
		"ConnectionCut":      {io.ErrUnexpectedEOF, "", "cannot be reached"},
		"PoolClosed":         {errors.New("closed pool"), "", "cannot be reached"},
	} {
		told, ok := errors.AsType[*errs.Error](pg.Translate(tc.err))
		require.True(t, ok, name)
		require.Equal(t, errs.Unavailable, told.Code, name)
		require.Equal(t, tc.reason, told.Reason, name)
		require.Contains(t, told.Message, tc.says, name)
	}
	var into struct{ Sign bool }
	for _, value := range []string{`{"Sign":"yes"}`, `{`} {
		err := json.Unmarshal([]byte(value), &into)
		require.Equal(t, errs.Internal, errs.CodeOf(pg.Translate(err)), "no database is away because a stored value cannot be decoded")
	}
	require.Equal(t, errs.Internal, errs.CodeOf(pg.Translate(pgx.ScanArgError{Err: errors.New("cannot scan")})))
}

func TestATakenKeyIsAConflict(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keyed := func(s *endpoints.Spec) { s.Key = "nightly" }
	b.Register(t, keyed)
	spec := b.Register(t, nil).Spec
	keyed(&spec)
	_, _, err := b.Service.Register(t.Context(), storetest.Tenant, spec)
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	require.ErrorContains(t, err, "another endpoint has this key")
	require.Equal(t, 2, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM schedules"), "nothing is half registered")

	b.Exec(t, "INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000002', 'other')")
	_, _, err = b.Service.Register(t.Context(), endpoints.Actor{TenantID: [16]byte{15: 2}}, spec)
	require.NoError(t, err, "another tenant's keys are its own")
}

// TestObjectsOfOtherTenantsAreNotFound asks for everything in the name of a tenant that owns
// nothing.
func TestObjectsOfOtherTenantsAreNotFound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	run := b.RunOne(t, storetest.Worker{1})
	b.Exec(t, "UPDATE schedules SET due_at = now(), planned_at = now(), slot = now()")
	_, live := b.StartOne(t, storetest.Worker{1})
	stranger := b.OtherTenant(t)
	missing := func(err error) {
		t.Helper()
		require.Equal(t, errs.NotFound, errs.CodeOf(err))
	}

	_, _, err := b.Service.Get(t.Context(), stranger, e.ID)
	missing(err)
	_, err = b.Service.Pause(t.Context(), stranger, e.ID, endpoints.PauseRequest{Until: storetest.Noon().AddDate(1, 0, 0)})
	missing(err)
	missing(b.Service.Archive(t.Context(), stranger, e.ID, 0))
	_, err = b.Service.Explain(t.Context(), stranger, e.ID)
	missing(err)
	for _, id := range []runs.ID{run.ID, live.RunID} {
		_, err = b.Runs.Get(t.Context(), stranger.TenantID, id)
		missing(err)
	}
	none, err := b.Runs.List(t.Context(), runs.Filter{TenantID: stranger.TenantID, Limit: 10})
	require.NoError(t, err)
	require.Empty(t, none)
	_, err = b.Service.Pause(t.Context(), storetest.Tenant, e.ID, endpoints.PauseRequest{Until: storetest.Noon().AddDate(1, 0, 0)})
	require.NoError(t, err)
	for _, state := range []string{"", "paused"} {
		list, _, err := b.Service.List(t.Context(), endpoints.Filter{TenantID: stranger.TenantID, State: state, Limit: 10})
		require.NoError(t, err)
		require.Empty(t, list, state)
	}
	mine, _, err := b.Service.List(t.Context(), endpoints.Filter{TenantID: storetest.Tenant.TenantID, State: "paused", Limit: 10})
	require.NoError(t, err)
	require.Len(t, mine, 1)
}

// TestNamesOfTwoTenantsAreApart has two tenants that use the same names.
func TestNamesOfTwoTenantsAreApart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := b.OtherTenant(t)
	keeper, vault := noticestore.NewStore(b.DB, &b.States.Rules), secrets.NewService(keystore.NewSecrets(b.DB), storetest.Sealing(t, "k1"))
	both := []endpoints.Actor{storetest.Tenant, other}
	for _, by := range both {
		_, _, err := keeper.PutRule(t.Context(), by, "same", storetest.Rule(nil), endpoints.Condition{})
		require.NoError(t, err)
		_, _, err = keeper.PutWindow(t.Context(), by, "same", notices.WindowSpec{StartsAt: storetest.Noon(), EndsAt: storetest.Noon().Add(time.Hour)}, endpoints.Condition{})
		require.NoError(t, err)
		_, _, err = vault.Put(t.Context(), by, secrets.Request{Name: "same", Value: secrets.NewText(by.Name)})
		require.NoError(t, err)
	}
	for _, by := range both {
		rules, err := keeper.ListRules(t.Context(), notices.PageFilter{TenantID: by.TenantID, Limit: 10})
		require.NoError(t, err)
		require.Len(t, rules, 1)
		require.Equal(t, by.Name, rules[0].CreatedBy)
		windows, err := keeper.ListWindows(t.Context(), notices.PageFilter{TenantID: by.TenantID, Limit: 10})
		require.NoError(t, err)
		require.Len(t, windows, 1)
		require.Equal(t, by.Name, windows[0].CreatedBy)
		kept, err := vault.List(t.Context(), secrets.Filter{TenantID: by.TenantID, Limit: 10})
		require.NoError(t, err)
		require.Len(t, kept, 1)
		one, err := vault.Get(t.Context(), by, "same")
		require.NoError(t, err)
		require.Equal(t, []string{by.Name, by.Name}, []string{kept[0].CreatedBy, one.CreatedBy})
	}

	require.NoError(t, keeper.DeleteRule(t.Context(), storetest.Tenant, "same", 0))
	require.NoError(t, keeper.DeleteWindow(t.Context(), storetest.Tenant, "same"))
	require.NoError(t, vault.Delete(t.Context(), storetest.Tenant, "same", false))

	for _, table := range []string{"notice_rules", "maintenance_windows", "secrets"} {
		require.Equal(t, 1, storetest.Query[int](t, b.Bundle, "SELECT count(*) FROM "+table+" WHERE tenant_id = $1", other.TenantID), table)
	}
}

func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	db, err := pg.Open(t.Context(), pg.Config{URL: "postgres://rubato:secret@127.0.0.1:1/none?connect_timeout=1"})
	require.NoError(t, err, "a database that is away is no fault of the URL")
	defer db.Close()
	require.Equal(t, errs.Unavailable, errs.CodeOf(db.Ping(t.Context())))
	_, _, err = items.NewClaims(db).ClaimDue(t.Context(), claims.Request{})
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	_, err = pg.MigrateUp(t.Context(), "postgres://rubato:secret@127.0.0.1:1/none")
	require.Equal(t, errs.Unavailable, errs.CodeOf(err))
	require.NotContains(t, err.Error(), "secret")

	_, err = pg.Open(t.Context(), pg.Config{URL: "postgres://rubato:secret@host:port/"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

// TestAServerThatIsGoneWithoutAWordDoesNotHideTheNext names one that takes connections and never
// speaks, and behind it one that works.
func TestAServerThatIsGoneWithoutAWordDoesNotHideTheNext(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = silent.Close() }()
	both, err := url.Parse(devpgtest.NewDatabase(t, devpgtest.Template{Key: "empty"}))
	require.NoError(t, err)
	query := both.Query()
	_, port, err := net.SplitHostPort(silent.Addr().String())
	require.NoError(t, err)
	query.Set("host", "127.0.0.1,"+query.Get("host"))
	query.Set("port", port+",5432")
	query.Set("sslmode", "disable") // Else each server is asked twice.
	both.RawQuery = query.Encode()
	_, err = pg.MigrateStatus(waittest.Context(t), both.String())
	require.NoError(t, err)
}

// TestTheURLBoundsAConnect reads the bound of one connection attempt: that of the URL, or else 5 s.
func TestTheURLBoundsAConnect(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]time.Duration{"": 5 * time.Second, "?connect_timeout=1": time.Second, "?connect_timeout=60": time.Minute} {
		cc, err := pgx.ParseConfig("postgres://rubato@db.example/rubato" + query)
		require.NoError(t, err)
		pg.BoundConnect(cc)
		require.Equal(t, want, cc.ConnectTimeout, query)
	}
}

func TestACutConnectionIsUnavailableOnceAndThenMended(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := b.Register(t, nil)
	b.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	failed := 0
	waittest.Until(t, func() bool {
		_, _, err := b.Service.Get(t.Context(), storetest.Tenant, e.ID)
		if err != nil {
			failed++
			require.Equal(t, errs.Unavailable, errs.CodeOf(err))
		}
		return err == nil
	})
	require.LessOrEqual(t, failed, 10)

	b.DB.Close()
	_, _, err := b.Service.Get(t.Context(), storetest.Tenant, e.ID)
	require.Equal(t, errs.Unavailable, errs.CodeOf(err), "so is a closed pool")
}

// TestUnknownNameDiffersFromInvalidName requires an error for an unknown name that does not blame
// its form.
func TestUnknownNameDiffersFromInvalidName(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keeper, vault := noticestore.NewStore(b.DB, &b.States.Rules), secrets.NewService(keystore.NewSecrets(b.DB), nil)
	for noun, remove := range map[string]func(name string) error{
		"notice rule":        func(name string) error { return keeper.DeleteRule(t.Context(), storetest.Tenant, name, 0) },
		"maintenance window": func(name string) error { return keeper.DeleteWindow(t.Context(), storetest.Tenant, name) },
		"secret":             func(name string) error { return vault.Delete(t.Context(), storetest.Tenant, name, false) },
	} {
		for name, want := range map[string]string{
			"shop": "there is no " + noun + ` "shop"`, "SHOP": "there is no such " + noun + "; the name of one looks like ",
		} {
			err := remove(name)
			require.Equal(t, errs.NotFound, errs.CodeOf(err), noun)
			require.ErrorContains(t, err, want)
		}
	}
}
