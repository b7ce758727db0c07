package store

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"rubato/internal/dispatch"
	"rubato/internal/endpoints"
	"rubato/internal/schedule"
	"rubato/internal/store/dbsqlc"
)

const (
	configBytes    = 2 << 10 // of a configuration, beside its long texts: twice what a plain one takes
	configsPerSlot = 3       // a worker begins with half of its slots, each with a run in progress and four claims in the queue
	usualSlots     = 2048
)

// config is an endpoint's configuration at one version, parsed and ready for use. It is shared and never changed. A worker keeps thousands, so
// there is no room in it for how the endpoint stands.
type config struct {
	id, tenant                 [16]byte
	version                    int64
	created, updated, archived time.Time
	spec                       endpoints.Spec // its empty maps are nil
	cron                       *schedule.Cron
	target                     dispatch.Target // of spec
	fault                      error           // why it cannot be used: a row that no API call could have written
}

// endpoint returns the endpoint as it stands in a state.
func (c *config) endpoint(state endpoints.State) endpoints.Endpoint {
	return endpoints.Endpoint{
		ID: c.id, TenantID: c.tenant, Version: c.version, CreatedAt: c.created, UpdatedAt: c.updated, ArchivedAt: c.archived,
		Spec: c.spec, State: state, Cron: c.cron,
	}
}

// size returns about how much memory it takes.
func (c *config) size() int {
	spec := &c.spec
	size := configBytes + len(spec.Body) + len(spec.Description) + len(spec.URL)
	for _, texts := range []map[string]string{spec.Headers, spec.Query, spec.Labels} {
		for name, value := range texts {
			size += len(name) + len(value)
		}
	}
	if c.target.Shape != nil {
		size += configBytes + 4*len(spec.Body) // What the templates in it take, and a good deal more.
	}
	return size
}

// configs caches configurations by endpoint. A version never changes, so an entry is right as long as its version is the one that is asked
// for. What was claimed longest ago is forgotten first. The end of a run does not count: it finds what its claim left as long as fewer are
// claimed meanwhile than fit, and would only keep it from those that are still to be run.
type configs struct {
	mu    sync.Mutex
	known map[[16]byte]*list.Element
	order *list.List // of *config; the last was claimed longest ago
	bytes int
	room  int // bytes, at most
}

// newConfigs returns an empty cache, with room for what a worker with at most so many slots usually holds at once. While slow targets make
// it use all of them, some may be forgotten before their run ends, and are read again. More would be found again only where that many endpoints
// run every few seconds, and lies in memory everywhere.
func newConfigs(slots int) *configs {
	return &configs{known: map[[16]byte]*list.Element{}, order: list.New(), room: slots * configsPerSlot * configBytes}
}

// load returns the configurations of endpoints at the versions asked for. Those that have another version by now are left out.
func (db *DB) load(ctx context.Context, tx dbsqlc.DBTX, versions map[[16]byte]int64) (map[[16]byte]*config, error) {
	found, missing := db.configs.find(versions)
	if len(missing) == 0 {
		return found, nil
	}
	rows, err := db.endpointRows(ctx, tx, missing)
	if err != nil {
		return nil, fmt.Errorf("reading %d endpoints: %w", len(missing), err)
	}
	fresh := make([]*config, 0, len(rows))
	for _, row := range rows {
		c := db.parse(row)
		fresh = append(fresh, c)
		if row.Version == versions[row.ID] {
			found[row.ID] = c
		}
	}
	db.configs.put(fresh)
	return found, nil
}

// know takes in the configuration of a row that was read anyway.
func (db *DB) know(row *dbsqlc.Endpoint) {
	if _, missing := db.configs.find(map[[16]byte]int64{row.ID: row.Version}); len(missing) > 0 {
		db.configs.put([]*config{db.parse(row)})
	}
}

func (c *configs) find(versions map[[16]byte]int64) (found map[[16]byte]*config, missing [][16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = make(map[[16]byte]*config, len(versions))
	for id, version := range versions {
		if known := c.known[id]; known != nil && known.Value.(*config).version == version {
			found[id] = known.Value.(*config)
		} else {
			missing = append(missing, id)
		}
	}
	return found, missing
}

// claimed notes that endpoints were claimed.
func (c *configs) claimed(list map[[16]byte]*config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range list {
		if known := c.known[id]; known != nil {
			c.order.MoveToFront(known)
		}
	}
}

func (c *configs) put(fresh []*config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fresh {
		if known := c.known[f.id]; known != nil {
			c.forget(known)
		}
		c.known[f.id] = c.order.PushFront(f)
		c.bytes += f.size()
	}
	for c.bytes > c.room {
		c.forget(c.order.Back())
	}
}

func (c *configs) forget(known *list.Element) {
	gone := c.order.Remove(known).(*config)
	delete(c.known, gone.id)
	c.bytes -= gone.size()
}

// parse makes a row ready for use. One that panics cannot be used.
func (db *DB) parse(row *dbsqlc.Endpoint) (c *config) {
	if fault := db.contain(func() { c = parse(row) }); fault != nil {
		return &config{id: row.ID, tenant: row.TenantID, version: row.Version, fault: errPanicked}
	}
	return c
}

// errPanicked is why an endpoint cannot be used whose configuration or state makes the program panic.
// What it panicked with is in the log, because it may hold what users must not see.
var errPanicked = errors.New("it leads to a fault inside Rubato; see the log at level error")

// parse makes a row ready for use.
func parse(row *dbsqlc.Endpoint) *config {
	c := &config{
		id: row.ID, tenant: row.TenantID, version: row.Version, created: row.CreatedAt, updated: row.UpdatedAt, archived: orZero(row.ArchivedAt),
	}
	if c.spec, c.fault = specOf(row); c.fault != nil {
		return c
	}
	c.spec.Labels, c.spec.Headers = orNil(c.spec.Labels), orNil(c.spec.Headers)
	var err error
	if c.cron, err = c.spec.ParseCron(c.id); err != nil {
		c.fault = err
	}
	if c.target, err = dispatch.NewTarget(c.tenant, &c.spec); err != nil {
		c.fault = err
	}
	return c
}

func textMap(raw json.RawMessage) (map[string]string, error) {
	m := map[string]string{}
	if emptyObject(raw) {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, err
	}
	return m, nil
}
