package pg

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"rubato/internal/errs"
)

// Translate maps errors of the driver to the domain's errors, by SQLSTATE and constraint name,
// never by message text. Domain errors pass unchanged.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*errs.Error](err); ours {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return errs.Wrap(err, errs.NotFound, "not found")
	}
	if pg, found := errors.AsType[*pgconn.PgError](err); found {
		return translateState(err, pg)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return errs.Wrap(err, errs.Unavailable, "the certificate of the database does not match its URL; set sslrootcert to the certificate of its authority, "+
			"use a host name of the certificate, or relax sslmode")
	}
	return translateLoss(err)
}

// codeBusy is the reason code of a database that is up but overloaded: a connection, lock or answer
// timed out.
const codeBusy = "database_busy"

// busy returns an [errs.Unavailable] for an overloaded database.
func busy(cause error, message string) error {
	return &errs.Error{
		Code:    errs.Unavailable,
		Reason:  codeBusy,
		Message: message,
		Err:     cause,
	}
}

// translateLoss maps an error without SQLSTATE: an undecodable value, a timeout, or a failed or
// lost connection.
func translateLoss(err error) error {
	if undecodable(err) {
		return err
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	timeout, network := errors.AsType[net.Error](err)
	if !connecting && (errors.Is(err, context.DeadlineExceeded) || network && timeout.Timeout()) {
		return busy(err, "the database did not answer in time, because it is overloaded or stands still; try again")
	}
	return errs.Wrap(err, errs.Unavailable, "the database cannot be reached; try again")
}

// undecodable reports whether an error is about encoding or decoding a value, rather than about the
// connection.
func undecodable(err error) bool {
	_, syntax := errors.AsType[*json.SyntaxError](err)
	_, kind := errors.AsType[*json.UnmarshalTypeError](err)
	_, column := errors.AsType[pgx.ScanArgError](err)
	return syntax || kind || column
}

func translateState(err error, pg *pgconn.PgError) error {
	switch {
	case pg.ConstraintName == "endpoints_key_unique":
		return &errs.Error{
			Code:    errs.Conflict,
			Reason:  "key_taken",
			Message: "another endpoint has this key; choose another, or edit that endpoint",
			Err:     err,
		}
	case noPartition(pg):
		return err // WithPartitions creates the partition and retries.
	case pg.Code == "55P03":
		return busy(err, fmt.Sprintf(
			"another change of the same, or a start of its run, has been under way for more than %s; nothing was changed, try again", lockWait))
	case pg.Code == "53300": // too_many_connections
		return busy(err, "the database has no free connection; try again, and if this persists, raise its max_connections")
	case pg.Code == "57014": // query_canceled, as by a statement_timeout
		return busy(err, "the database canceled the statement, because it took too long or an operator ended it; try again")
	case pg.Code == "53100": // disk_full
		return errs.Wrap(err, errs.Unavailable, "the disk of the database is full; its operator must make room")
	case pg.Code == "25006": // read_only_sql_transaction
		return errs.Wrap(err, errs.Unavailable, "the database takes no writes at the moment, as a standby does; try again")
	case HasClass(pg, "22", "23"):
		return errs.Wrap(err, errs.Invalid, "the database refuses a value")
	case HasClass(pg, "08", "53", "57", "40", "55", "25", "0A"):
		// Connections, resources, operator intervention, rollbacks, locks, read-only transactions,
		// and prepared plans from before a migration. None is caused by the input, and all may be
		// transient.
		return errs.Wrap(err, errs.Unavailable, "the database cannot do this at the moment; try again")
	default:
		return err
	}
}

// HasClass reports whether the SQLSTATE of an error begins with one of the classes.
func HasClass(pg *pgconn.PgError, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(pg.Code, class) {
			return true
		}
	}
	return false
}

// lackingRight explains which privilege a role lacks for a migration. Other errors are returned
// unchanged.
func lackingRight(err error, role string) error {
	pg, found := errors.AsType[*pgconn.PgError](err)
	if !found || pg.Code != "42501" { // insufficient_privilege
		return err
	}
	step := ""
	if partial, broken := errors.AsType[*goose.PartialError](err); broken {
		step = partial.Failed.Source.Path + ": "
	}
	return &errs.Error{Code: errs.Forbidden, Message: fmt.Sprintf(
		"%sthe role %q lacks a right: %s; migrate as the owner of the database and of its tables, and see \"Rights\" in the manual of operations for others",
		step, role, pg.Message)}
}

// noPartition reports whether a row of history has no partition. Postgres reports a check violation
// without a constraint name.
func noPartition(pg *pgconn.PgError) bool { return pg.Code == "23514" && pg.ConstraintName == "" }

// redactURL removes the password from an error about a URL.
func redactURL(err error) error {
	if parse, found := errors.AsType[*pgconn.ParseConfigError](err); found {
		return parse // The driver redacts this type.
	}
	return err
}

// IsMissing reports whether an error means that no row was found.
func IsMissing(err error) bool { return err != nil && errs.CodeOf(Translate(err)) == errs.NotFound }

// NotFound returns the [errs.NotFound] of an endpoint if its row is missing, and other errors
// translated.
func NotFound(err error, id fmt.Stringer) error {
	if translated := Translate(err); errs.CodeOf(translated) != errs.NotFound {
		return translated
	}
	return NoEndpoint(id)
}

// NoEndpoint returns the [errs.NotFound] of an endpoint.
func NoEndpoint(id fmt.Stringer) error {
	return errs.New(errs.NotFound, "not_found", fmt.Sprintf("there is no endpoint %s", id))
}
