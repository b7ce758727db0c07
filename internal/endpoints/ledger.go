package endpoints

import "encoding/json"

// LedgerDecision is a decision of the ledger.
type LedgerDecision struct {
	Recorded

	// RunID is the finished run of the decision; zero for every other cause.
	RunID [16]byte
	// StoredInput is the input of the decision as it was stored; nil for a finish,
	// because its input follows from the run and the decisions before it.
	StoredInput json.RawMessage
	// Position is where the ledger goes on after the decision.
	Position LedgerPosition
}

// LedgerPosition is a position in the ledger of an endpoint, between two decisions. The zero value
// is before the newest one.
type LedgerPosition struct {
	// Run is the ID of the last finished run before the position.
	Run [16]byte
	// Change is the number of the last other decision before the position.
	Change int64
}
