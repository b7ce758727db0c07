package endpoints

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rubato/internal/dispatch/request"
	"rubato/internal/endpoints"
	"rubato/internal/schedule"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

const (
	// configBytes is the assumed size of a configuration without its long texts: twice a plain one.
	configBytes = 5 << 9
	// configsPerSlot sizes the cache. A worker starts with half of its slots. Each has a run in
	// progress and about four claims in the queue.
	configsPerSlot = 3
	// defaultCacheSlots is the minimum number of slots that the cache is sized for.
	defaultCacheSlots = 2048
)

// Config is the parsed configuration of an endpoint at one version. It is immutable, and goroutines
// share it. A worker caches thousands of them, so it holds no state of the endpoint.
type Config struct {
	id, tenant                 [16]byte
	version                    int64
	created, updated, archived time.Time
	// spec has nil in place of empty maps, to save memory.
	spec endpoints.Spec
	cron *schedule.Cron
	// target is derived from spec.
	Target request.Target
	// call is nil for an endpoint.
	call *endpoints.Call
	// fault is why the configuration is unusable. The API does not write such rows.
	Fault error
}

// endpoint joins the configuration with a state.
func (c *Config) endpoint(state endpoints.State) endpoints.Endpoint {
	return endpoints.Endpoint{
		ID:         c.id,
		TenantID:   c.tenant,
		Version:    c.version,
		CreatedAt:  c.created,
		UpdatedAt:  c.updated,
		ArchivedAt: c.archived,
		Spec:       c.spec,
		State:      state,
		Cron:       c.cron,
		Call:       c.call,
	}
}

// size estimates the memory of the configuration in bytes.
func (c *Config) size() int {
	spec := &c.spec
	size := configBytes + len(spec.Body) + len(spec.Description) + len(spec.URL)
	for _, texts := range []map[string]string{spec.Headers, spec.Query, spec.Labels} {
		for name, value := range texts {
			size += len(name) + len(value)
		}
	}
	if c.Target.Template != nil {
		size += configBytes + 4*len(spec.Body) // A generous estimate of the parsed templates.
	}
	return size
}

// configs is an LRU cache of configurations by endpoint, bounded in bytes. An entry is valid for
// one version, because a version never changes. It is safe for concurrent use.
//
// Only a claim refreshes the recency of an entry. A finish does not: the entry of its claim is
// usually still cached, and a refresh would displace entries of runs that are still to start.
type configs struct {
	// mu guards all fields below except room, which never changes.
	mu    sync.Mutex
	known map[[16]byte]*list.Element
	// order holds *config values. The back is the least recently claimed.
	order *list.List
	bytes int
	// room is the maximum of bytes.
	room int
}

// newConfigs returns an empty cache for a worker with a maximum number of slots. It holds what such
// a worker usually has claimed. If slow targets make it use all slots, some entries are evicted
// before their run ends and are read again. A larger cache would only help where that many
// endpoints run every few seconds.
func newConfigs(slots int) *configs {
	return &configs{
		known: map[[16]byte]*list.Element{},
		order: list.New(),
		room:  slots * configsPerSlot * configBytes,
	}
}

// Load returns the configurations of endpoints at the given versions, from the cache or the
// database. An endpoint that has another version by now is missing from the result.
func (db *States) Load(ctx context.Context, tx dbsqlc.DBTX, versions map[[16]byte]int64) (map[[16]byte]*Config, error) {
	found, missing := db.configs.find(versions)
	if len(missing) == 0 {
		return found, nil
	}
	rows, err := db.endpointRows(ctx, tx, missing)
	if err != nil {
		return nil, fmt.Errorf("reading %d endpoints: %w", len(missing), err)
	}
	fresh := make([]*Config, 0, len(rows))
	for _, row := range rows {
		c := db.parse(row)
		fresh = append(fresh, c)
		if row.Version == versions[row.ID] {
			found[row.ID] = c
		}
	}
	calls, err := db.loadCalls(ctx, tx, versions, found, missing)
	if err != nil {
		return nil, err
	}
	db.configs.put(append(fresh, calls...))
	return found, nil
}

// know caches the configuration of a row that was read for another purpose.
func (db *States) know(row *dbsqlc.Endpoint) {
	if _, missing := db.configs.find(map[[16]byte]int64{row.ID: row.Version}); len(missing) > 0 {
		db.configs.put([]*Config{db.parse(row)})
	}
}

func (c *configs) find(versions map[[16]byte]int64) (found map[[16]byte]*Config, missing [][16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = make(map[[16]byte]*Config, len(versions))
	for id, version := range versions {
		if known := c.known[id]; known != nil && known.Value.(*Config).version == version {
			found[id] = known.Value.(*Config)
		} else {
			missing = append(missing, id)
		}
	}
	return found, missing
}

// Claimed marks endpoints as recently claimed in the cache.
func (db *States) Claimed(list map[[16]byte]*Config) { db.configs.claimed(list) }

// claimed marks endpoints as recently claimed.
func (c *configs) claimed(list map[[16]byte]*Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range list {
		if known := c.known[id]; known != nil {
			c.order.MoveToFront(known)
		}
	}
}

func (c *configs) put(fresh []*Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range fresh {
		if known := c.known[f.id]; known != nil {
			c.evict(known)
		}
		c.known[f.id] = c.order.PushFront(f)
		c.bytes += f.size()
	}
	for c.bytes > c.room {
		c.evict(c.order.Back())
	}
}

func (c *configs) evict(known *list.Element) {
	gone := c.order.Remove(known).(*Config)
	delete(c.known, gone.id)
	c.bytes -= gone.size()
}

// parse parses a row. If that panics, the configuration has ErrPanicked as its fault.
func (db *States) parse(row *dbsqlc.Endpoint) (c *Config) {
	if fault := db.Contain(func() { c = parse(row) }); fault != nil {
		return &Config{
			id:      row.ID,
			tenant:  row.TenantID,
			version: row.Version,
			Fault:   ErrPanicked,
		}
	}
	return c
}

// ErrPanicked is the fault of an endpoint if its configuration or state makes the program panic.
// The panic value is only logged, because it may hold secrets that users must not see.
var ErrPanicked = errors.New("it leads to a fault inside Rubato; see the log at level error")

// parse parses a row. An invalid row gives a configuration with a fault.
func parse(row *dbsqlc.Endpoint) *Config {
	c := &Config{
		id:       row.ID,
		tenant:   row.TenantID,
		version:  row.Version,
		created:  row.CreatedAt,
		updated:  row.UpdatedAt,
		archived: pg.OrZero(row.ArchivedAt),
	}
	if c.spec, c.Fault = specOf(row); c.Fault != nil {
		return c
	}
	c.spec.Labels, c.spec.Headers = pg.OrNil(c.spec.Labels), pg.OrNil(c.spec.Headers)
	var err error
	if c.cron, err = c.spec.ParseCron(c.id); err != nil {
		c.Fault = err
	}
	if c.Target, err = request.NewTarget(c.tenant, &c.spec); err != nil {
		c.Fault = err
	}
	c.Target.SetKey(row.DigestKey[:])
	return c
}

// endpointRows reads configurations. With few endpoints, the planner of Postgres may prefer an
// index of names or tenants to the primary key.
func (db *States) endpointRows(ctx context.Context, tx dbsqlc.DBTX, ids [][16]byte) ([]*dbsqlc.Endpoint, error) {
	return db.Q.EndpointGetMany(ctx, pg.Replanned{DBTX: tx}, ids)
}
