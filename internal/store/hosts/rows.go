package hosts

import (
	"time"

	"rubato/internal/hosts"
	"rubato/internal/store/dbsqlc"
	"rubato/internal/store/pg"
)

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
	}
	if row.Threshold != nil {
		b.Threshold = int(*row.Threshold)
	}
	if row.WindowMs != nil {
		b.Window = time.Duration(*row.WindowMs) * time.Millisecond
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
	for _, seat := range b.Seats {
		p.SeatEndpoints, p.SeatTokens = append(p.SeatEndpoints, seat.Endpoint), append(p.SeatTokens, seat.Token)
	}
	return p
}
