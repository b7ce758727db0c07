package items

import (
	"context"
	"fmt"

	"rubato/internal/dispatch/request"
	"rubato/internal/runs"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// attachValidators adds the validators of the last answers to conditional targets. It copies these
// targets, because cached targets are shared. Without such targets it reads nothing.
func (s *Executions) attachValidators(ctx context.Context, targets map[[16]byte]*request.Target) error {
	var ids [][16]byte
	for id, t := range targets {
		if t.Validators != nil {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.db.Q.ValidatorGetMany(ctx, s.db.Hot, ids)
	if err != nil {
		return fmt.Errorf("reading what %d targets last answered: %w", len(ids), pg.Translate(err))
	}
	for _, row := range rows {
		t := *targets[row.EndpointID]
		if uint64(row.Request) != t.Validators.Request {
			continue
		}
		t.Validators = &runs.Validators{
			Request:      t.Validators.Request,
			ETag:         row.Etag,
			LastModified: row.LastModified,
		}
		targets[row.EndpointID] = &t
	}
	return nil
}

// validators gathers the validators of answers.
type validators struct{ rows dbsqlc.ValidatorPutParams }

func (v *validators) add(run runs.Run) {
	found := run.Outcome.Validators
	if found == nil {
		return
	}
	v.rows.EndpointIds = append(v.rows.EndpointIds, run.EndpointID)
	v.rows.Requests = append(v.rows.Requests, int64(found.Request))
	v.rows.Etags = append(v.rows.Etags, found.ETag)
	v.rows.LastModified = append(v.rows.LastModified, found.LastModified)
}

// writes returns the statement that stores them, if there are any.
func (v *validators) writes(ctx context.Context, db *pg.DB) []pg.Statement {
	if len(v.rows.EndpointIds) == 0 {
		return nil
	}
	v.rows.Now = db.Now()
	return []pg.Statement{func(tx dbsqlc.DBTX) error { return db.Q.ValidatorPut(ctx, tx, v.rows) }}
}
