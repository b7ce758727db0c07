package telemetry

import (
	"log/slog"
	"time"
)

const (
	// oldSnapshot is the age at which a transaction is logged. Rubato's own statements end within
	// seconds.
	oldSnapshot = time.Minute
	// holderAgain is the interval at which the same transaction is logged again: six lines an hour.
	holderAgain = 10 * time.Minute
)

// SnapshotHolder is the session whose transaction keeps vacuum from removing dead rows. It has only
// the command of its query, because the text may hold data or secrets of other applications.
type SnapshotHolder struct {
	// PID is the server process, for pg_terminate_backend; zero for a prepared transaction.
	PID  int32
	User string
	// Application is application_name.
	Application string
	// Client is the client's address; empty for a Unix socket.
	Client string
	// State is that of pg_stat_activity, or "prepared".
	State string
	// Command is the first word of the last query, such as SELECT; empty if it is not known.
	Command string
	// QueryID is for pg_stat_statements; zero if Postgres does not compute it.
	QueryID int64
	// Prepared is the identifier for ROLLBACK PREPARED; empty if the transaction is not prepared.
	Prepared string
	Since    time.Time
	// QueryStart is zero if it is not known.
	QueryStart time.Time
}

// snapshotLog rate-limits the log of old snapshots: the same holder once in ten minutes. The caller
// serializes calls.
type snapshotLog struct {
	// named identifies the transaction that was logged last, by pid, prepared and since.
	named SnapshotHolder
	at    time.Time
}

// report logs the holder of the oldest snapshot if the snapshot is older than oldSnapshot.
func (l *snapshotLog) report(logger *slog.Logger, state DatabaseState) {
	if state.OldestSnapshot < oldSnapshot {
		return
	}
	h := state.SnapshotHolder
	transaction := SnapshotHolder{
		PID:      h.PID,
		Prepared: h.Prepared,
		Since:    h.Since,
	}
	if transaction == l.named && time.Since(l.at) < holderAgain {
		return
	}
	l.named, l.at = transaction, time.Now()
	logger.Warn("an old transaction keeps vacuum from removing dead rows",
		"open_for", state.OldestSnapshot.Round(time.Second), "pid", h.PID, "user", h.User, "application", h.Application,
		"client", h.Client, "session_state", h.State, "command", h.Command, "query_id", h.QueryID, "query_start", h.QueryStart,
		"prepared", h.Prepared)
}
