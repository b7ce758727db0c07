package items

import (
	"context"
	"fmt"

	"rubato/internal/change"
	"rubato/internal/claims"
	"rubato/internal/dispatch/request"
	"rubato/internal/governor"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// attachNoise adds the state of the search for noise to the targets that are searched. The
// answer of a one-off run is compared without the noise, and searched for none, because the run may
// have a request of its own.
func (s *Executions) attachNoise(ctx context.Context, list []claims.Claim, targets map[[16]byte]*request.Target) error {
	var ids [][16]byte
	oneOff := map[[16]byte]bool{}
	for _, c := range list {
		if t := targets[c.EndpointID]; t != nil && t.Spec.SearchesNoise() {
			ids = append(ids, c.EndpointID)
			oneOff[c.EndpointID] = c.Source == string(governor.SourceManual)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.db.Q.NoiseWatchGetMany(ctx, s.db.Hot, ids)
	if err != nil {
		return fmt.Errorf("reading the noise of %d targets: %w", len(ids), pg.Translate(err))
	}
	known := make(map[[16]byte]request.Noise, len(rows))
	for _, row := range rows {
		// A state that cannot be decoded begins anew.
		watch, _ := change.Decode(row.State)
		known[row.EndpointID] = request.Noise{
			Watch:    watch,
			Found:    row.Found,
			Rejected: row.Rejected,
		}
	}
	for _, id := range ids {
		targets[id] = targets[id].WithNoise(known[id])
		if oneOff[id] {
			targets[id].Noise = nil
		}
	}
	return nil
}

// noiseRows gathers the states of the search for noise after answers, and the findings.
type noiseRows struct {
	watches dbsqlc.NoiseWatchPutParams
	found   dbsqlc.NoiseInsertParams
}

func (n *noiseRows) add(run runs.Run) {
	if run.Outcome.NoiseWatch == nil {
		return
	}
	n.watches.EndpointIds = append(n.watches.EndpointIds, run.EndpointID)
	n.watches.States = append(n.watches.States, run.Outcome.NoiseWatch)
	for _, found := range run.Outcome.Noise {
		n.found.EndpointIds = append(n.found.EndpointIds, run.EndpointID)
		n.found.Paths = append(n.found.Paths, found.Path)
		n.found.Pairs = append(n.found.Pairs, int16(found.Pairs))
		n.found.GapsMs = append(n.found.GapsMs, found.Gap.Milliseconds())
	}
}

// writes returns the statements that store them, if there are any.
func (n *noiseRows) writes(ctx context.Context, db *pg.DB) (list []pg.Statement) {
	if len(n.watches.EndpointIds) > 0 {
		n.watches.Now = db.Now()
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.NoiseWatchPut(ctx, tx, n.watches) })
	}
	if len(n.found.EndpointIds) > 0 {
		n.found.Now = db.Now()
		list = append(list, func(tx dbsqlc.DBTX) error { return db.Q.NoiseInsert(ctx, tx, n.found) })
	}
	return list
}
