package endpoints

import (
	"context"
	"fmt"

	"rubato/internal/store/dbsqlc"
)

// A schedule names the version of its configuration, and every edit writes both. Manual SQL can
// raise one of them alone. Then neither cache nor query finds the named version. The functions here
// use the stored configuration instead, so that the endpoint is not claimed and released forever
// and its runs can finish.

// loadCurrent adds the stored configurations, of any version, of the endpoints that have none at
// the requested version.
func (db *States) loadCurrent(ctx context.Context, tx dbsqlc.DBTX, versions map[[16]byte]int64, loaded map[[16]byte]*Config) error {
	var missing [][16]byte
	for id := range versions {
		if loaded[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := db.endpointRows(ctx, tx, missing)
	if err != nil {
		return fmt.Errorf("reading %d endpoints: %w", len(missing), err)
	}
	for _, row := range rows {
		loaded[row.ID] = db.parse(row)
	}
	return nil
}
