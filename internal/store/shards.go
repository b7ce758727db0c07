package store

import (
	"context"
	"fmt"

	"rubato/internal/dispatch"
	"rubato/internal/store/dbsqlc"
)

// A start and a change of the same endpoint exclude each other by advisory locks: a batch of starts shares those of its endpoints, and
// what replans an endpoint outside a finish takes the endpoint's alone. There is a lock for every shard of endpoints rather than for every
// endpoint, because Postgres keeps locks in a table of a fixed size: 64 times max_connections entries with its defaults, and twice as many
// for who holds them. A batch has up to 500 starts. Among 256 shards it holds at most 256 locks, so 50 full batches at once fit into the
// table of a default server; and a change meets a batch of ten, as a worker with 2,000 calls a second has them, once in 25 times, and then
// waits for one commit.
//
// Everybody takes all the shards they need in one statement, in ascending order, before locking any row, so no two wait for each other. What
// the planner does locks its claim or its suggestion first, which is safe: nobody who holds a shard asks for those rows.
const (
	endpointShards = 256 // numbered from 0
	tenantShards   = 256 // numbered from endpointShards: what starts with secrets share, and a change of a tenant's secrets takes alone
)

// shards is a set of shards.
type shards [endpointShards + tenantShards]bool

// addEndpoint takes in the shard of an endpoint: IDs end in chance.
func (s *shards) addEndpoint(id [16]byte) { s[id[15]] = true }

// addTenant takes in the shard of a tenant's secrets.
func (s *shards) addTenant(id [16]byte) { s[endpointShards+int(id[15])] = true }

// sorted returns the shards of the set, ascending.
func (s *shards) sorted() []int32 {
	count := 0
	for _, in := range s {
		if in {
			count++
		}
	}
	list := make([]int32, 0, count)
	for n, in := range s {
		if in {
			list = append(list, int32(n))
		}
	}
	return list
}

// shardsOf returns the shards of endpoints, ascending.
func shardsOf(ids ...[16]byte) []int32 {
	var s shards
	for _, id := range ids {
		s.addEndpoint(id)
	}
	return s.sorted()
}

// excludeStarts waits until no start of any of the endpoints is in flight, and keeps new ones out until the transaction ends. It comes
// before the lock of any row, and once in a transaction.
func (db *DB) excludeStarts(ctx context.Context, tx dbsqlc.DBTX, ids ...[16]byte) error {
	if err := db.q.StartsExclude(ctx, tx, shardsOf(ids...)); err != nil {
		return fmt.Errorf("waiting for the starts in flight of %d endpoints: %w", len(ids), err)
	}
	return nil
}

// excludeSecretStarts does the same for every start of a tenant that needs secrets.
func (db *DB) excludeSecretStarts(ctx context.Context, tx dbsqlc.DBTX, tenant [16]byte) error {
	var s shards
	s.addTenant(tenant)
	if err := db.q.StartsExclude(ctx, tx, s.sorted()); err != nil {
		return fmt.Errorf("waiting for the starts in flight that need secrets: %w", err)
	}
	return nil
}

// shardsOfStarts returns the shards that a batch of starts shares, ascending.
func shardsOfStarts(list []dispatch.Start) []int32 {
	var s shards
	for i := range list {
		s.addEndpoint(list[i].Claim.EndpointID)
		if list[i].Secrets {
			s.addTenant(list[i].TenantID)
		}
	}
	return s.sorted()
}
