package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"rubato/internal/stats"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// Routes returns which workers may run an endpoint with these required and preferred tags.
func (s *Store) Routes(ctx context.Context, endpoint [16]byte, required, preferred []string) (routes stats.Routes, err error) {
	err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
		mark, err := s.db.Q.TagSetUnservedSince(ctx, tx, dbsqlc.TagSetUnservedSinceParams{EndpointID: endpoint, Now: s.db.Now()})
		if err != nil {
			return fmt.Errorf("reading since when no worker serves an endpoint: %w", err)
		}
		routes.At, routes.UnservedSince = mark.Now, pg.OrZero(mark.Since)
		rows, err := s.db.Q.WorkerListRoutes(ctx, tx, dbsqlc.WorkerListRoutesParams{
			Required:  append([]string{}, required...),
			Preferred: append([]string{}, preferred...),
			Now:       s.db.Now(),
			MaxRows:   stats.MaxWorkers,
		})
		if err != nil {
			return fmt.Errorf("listing the workers for an endpoint: %w", err)
		}
		for _, row := range rows {
			routes.Workers = append(routes.Workers, stats.Route{
				ID:           row.ID,
				Name:         row.Name,
				State:        stats.WorkerState(row.State),
				Tags:         row.Tags,
				Capabilities: row.Capabilities,
				Exclusive:    row.Exclusive,
				Serves:       row.Serves,
				Missing:      row.Missing,
				Unmet:        row.Unmet,
			})
		}
		return nil
	})
	return routes, err
}
