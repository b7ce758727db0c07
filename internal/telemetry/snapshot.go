package telemetry

import (
	"log/slog"
	"time"
)

const (
	// oldSnapshot is the age from which a transaction is named in the log: the statements of Rubato itself end within seconds.
	oldSnapshot = time.Minute
	// holderAgain is how long after a transaction was named it is named again, so that a forgotten one costs six lines an hour.
	holderAgain = 10 * time.Minute
)

// SnapshotHolder is the session whose transaction keeps vacuum from removing dead rows. Of its query only the command is known, because
// the text may hold data or secrets of others.
type SnapshotHolder struct {
	PID         int32 // of its server process, for pg_terminate_backend; zero: a prepared transaction
	User        string
	Application string // application_name
	Client      string // the address it comes from; empty: a Unix socket
	State       string // as pg_stat_activity names it, or "prepared"
	Command     string // first word of its last query, such as SELECT; empty: not known
	QueryID     int64  // for pg_stat_statements; zero: Postgres does not compute it
	Prepared    string // the identifier for ROLLBACK PREPARED; empty: no prepared transaction
	Since       time.Time
	QueryStart  time.Time // zero: not known
}

// snapshotLog names the holders of old snapshots in the log, each once in ten minutes. Its user serializes calls.
type snapshotLog struct {
	named SnapshotHolder // pid, prepared and since of the last one named
	at    time.Time
}

// report logs the holder of the oldest snapshot if that is older than a minute.
func (l *snapshotLog) report(logger *slog.Logger, state DatabaseState) {
	if state.OldestSnapshot < oldSnapshot {
		return
	}
	h := state.SnapshotHolder
	transaction := SnapshotHolder{PID: h.PID, Prepared: h.Prepared, Since: h.Since}
	if transaction == l.named && time.Since(l.at) < holderAgain {
		return
	}
	l.named, l.at = transaction, time.Now()
	logger.Warn("an old transaction keeps vacuum from removing dead rows",
		"open_for", state.OldestSnapshot.Round(time.Second), "pid", h.PID, "user", h.User, "application", h.Application,
		"client", h.Client, "session_state", h.State, "command", h.Command, "query_id", h.QueryID, "query_start", h.QueryStart,
		"prepared", h.Prepared)
}
