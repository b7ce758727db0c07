package hosts

import (
	"encoding/json"
	"time"

	"rubato/internal/hosts"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

// adaptive is the form of the adaptive limits in the table.
type adaptive struct {
	Concurrency hosts.Throttle `json:"concurrency"`
	Rate        hosts.Throttle `json:"rate"`
}

func breakersOf(rows []*dbsqlc.Host) []hosts.Breaker {
	list := make([]hosts.Breaker, len(rows))
	for i, row := range rows {
		list[i] = breakerOf(row)
	}
	return list
}

func breakerOf(row *dbsqlc.Host) hosts.Breaker {
	b := hosts.Breaker{
		Key:       hosts.Key{Scope: row.Scope, Host: row.Host},
		State:     hosts.State(row.State),
		Failures:  int(row.Failures),
		Openings:  int(row.Openings),
		Successes: int(row.Successes),
		Since:     row.Since,
		OpenUntil: pg.OrZero(row.OpenUntil),
		HeldUntil: pg.OrZero(row.HeldUntil),
	}
	if row.Threshold != nil {
		b.Threshold = int(*row.Threshold)
	}
	if row.WindowMs != nil {
		b.Window = time.Duration(*row.WindowMs) * time.Millisecond
	}
	if row.MaxConcurrency != nil {
		b.Limits.Concurrency = int(*row.MaxConcurrency)
	}
	if row.MaxRate != nil {
		b.Limits.Rate = *row.MaxRate
	}
	if row.LatencyMs != nil {
		b.Latency = time.Duration(*row.LatencyMs) * time.Millisecond
	}
	if row.Adaptive != nil {
		var learned adaptive
		// An unreadable limit is none: the next overload begins another.
		if json.Unmarshal(row.Adaptive, &learned) == nil {
			b.Concurrency, b.Rate = learned.Concurrency, learned.Rate
		}
	}
	for i, id := range row.SeatEndpoints {
		b.Seats = append(b.Seats, hosts.Seat{Endpoint: id, Token: row.SeatTokens[i]})
	}
	return b
}

func paramsOf(b hosts.Breaker, now time.Time) dbsqlc.HostWriteParams {
	p := dbsqlc.HostWriteParams{
		Scope:         b.Scope,
		Host:          b.Host,
		State:         string(b.State),
		Failures:      int32(b.Failures),
		Openings:      int32(b.Openings),
		Successes:     int32(b.Successes),
		Since:         b.Since,
		OpenUntil:     pg.Optional(b.OpenUntil),
		HeldUntil:     pg.Optional(b.HeldUntil),
		SeatEndpoints: [][16]byte{},
		SeatTokens:    []int64{},
		Now:           now,
	}
	if b.Threshold > 0 {
		p.Threshold = new(int32(b.Threshold))
	}
	if b.Window > 0 {
		p.WindowMs = new(b.Window.Milliseconds())
	}
	if b.Limits.Concurrency > 0 {
		p.MaxConcurrency = new(int32(b.Limits.Concurrency))
	}
	if b.Limits.Rate > 0 {
		p.MaxRate = &b.Limits.Rate
	}
	if b.Latency > 0 {
		p.LatencyMs = new(b.Latency.Milliseconds())
	}
	if b.Adapts() {
		raw, err := json.Marshal(adaptive{Concurrency: b.Concurrency, Rate: b.Rate})
		if err != nil {
			panic(err) // Numbers and instants always encode.
		}
		p.Adaptive = raw
	}
	for _, seat := range b.Seats {
		p.SeatEndpoints, p.SeatTokens = append(p.SeatEndpoints, seat.Endpoint), append(p.SeatTokens, seat.Token)
	}
	return p
}
