package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"

	"rubato/internal/errs"
)

// translate turns what the driver returns into the domain's errors, by SQLSTATE and constraint name, never by text. Errors of the
// domain pass as they are.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if _, ours := errors.AsType[*errs.Error](err); ours {
		return err
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return errs.Wrap(err, errs.NotFound, "there is no such thing")
	}
	if pg, found := errors.AsType[*pgconn.PgError](err); found {
		return translateState(err, pg)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if _, untrusted := errors.AsType[*tls.CertificateVerificationError](err); untrusted {
		return errs.Wrap(err, errs.Unavailable, "the certificate of the database is not the one that its URL asks for; name the file of whoever signed it as "+
			"sslrootcert, connect by a host name that the certificate is for, or ask for less by sslmode")
	}
	// What carries no SQLSTATE never reached the database, or lost it: a broken connection, a timeout.
	return errs.Wrap(err, errs.Unavailable, "the database cannot be reached; try again")
}

func translateState(err error, pg *pgconn.PgError) error {
	switch {
	case pg.ConstraintName == "endpoints_key_unique":
		return &errs.Error{
			Code: errs.Conflict, Reason: "key_taken", Message: "another endpoint has this key; choose another, or edit that endpoint", Err: err,
		}
	case noPartition(pg):
		return err // Mended by whoever inserts history.
	case pg.Code == "55P03":
		return errs.Wrap(err, errs.Unavailable, fmt.Sprintf(
			"another change of the same, or a start of its run, has been under way for more than %s; nothing was changed, try again", lockWait))
	case hasClass(pg, "22", "23"):
		return errs.Wrap(err, errs.Invalid, "the database refuses a value")
	case hasClass(pg, "08", "53", "57", "40", "55", "25", "0A"):
		// Connections, resources, intervention, rollbacks, locks, read-only, a prepared plan from before a migration: none is the
		// input's fault, and all may pass.
		return errs.Wrap(err, errs.Unavailable, "the database cannot do this at the moment; try again")
	default:
		return err
	}
}

func hasClass(pg *pgconn.PgError, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(pg.Code, class) {
			return true
		}
	}
	return false
}

// lackingRight words that a role may not do what a migration needs. Any other error is returned as it is.
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

// noPartition reports whether a row of history found no partition: a check violation that no constraint of ours caused.
func noPartition(pg *pgconn.PgError) bool { return pg.Code == "23514" && pg.ConstraintName == "" }

// redactURL hides the text of an error about a URL, which may repeat the password.
func redactURL(err error) error {
	if parse, found := errors.AsType[*pgconn.ParseConfigError](err); found {
		return parse // Redacts by itself.
	}
	return err
}
