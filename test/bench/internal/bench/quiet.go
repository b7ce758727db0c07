package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/client"
)

// calls measures the latencies of one-off runs and registrations.
func (x Load) calls(ctx context.Context, l *environment, out *APIReport) (err error) {
	in, err := l.install(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	if err := in.startWorkers(ctx, 1); err != nil {
		return err
	}
	l.Progress.Say("registrations: %d over %d connections", x.Register, x.Conns)
	r, err := in.registrar(x.Conns)
	if err != nil {
		return err
	}
	far := time.Now().Add(once)
	specOf := func(i int) client.EndpointSpec { return l.endpoint(groupOther, i, once, far) }
	if _, err := r.register(ctx, warmups(x.Register), specOf); err != nil {
		return err
	}
	done, err := r.register(ctx, max(x.Register, x.RunNow), specOf)
	if err != nil {
		return err
	}
	out.Registrations = Registrations{
		Conns:     x.Conns,
		PerSecond: float64(len(done.ids)) / done.span.Seconds(),
		Milli:     spreadOf(done.took),
	}
	l.Progress.Say("  %.0f a second, p99 %.1f ms; now run %d at once, one after the other", out.Registrations.PerSecond,
		out.Registrations.Milli.P99, x.RunNow)
	if out.RunNowMs, err = in.runNow(ctx, r, done.ids[:x.RunNow]); err != nil {
		return fmt.Errorf("running at once: %w", err)
	}
	l.Progress.Say("  p50 %.1f ms, p99 %.1f ms", out.RunNowMs.P50, out.RunNowMs.P99)
	return nil
}

// runNow requests one-off runs sequentially: each after the request of the previous one has
// arrived.
func (in *installation) runNow(ctx context.Context, r *registrar, ids []string) (Spread, error) {
	l := in.db.lab
	if _, err := l.sink.take(ctx); err != nil {
		return Spread{}, err
	}
	asked := make([]time.Time, len(ids))
	for n, id := range ids {
		asked[n] = time.Now()
		res, err := r.api.RunEndpoint(ctx, id, client.OneOffRun{}) //nolint:bodyclose // readAnswer closes it.
		if err != nil {
			return Spread{}, fmt.Errorf("calling the API: %w", err)
		}
		var planned struct{}
		if err := readAnswer(res, &planned); err != nil {
			return Spread{}, err
		}
		if err := poll(ctx, startPatience, func() (bool, error) {
			came, err := l.sink.count(ctx)
			return came > n, err
		}); err != nil {
			return Spread{}, err
		}
	}
	came, err := l.sink.take(ctx)
	if err != nil {
		return Spread{}, err
	}
	took := make([]time.Duration, 0, len(came))
	for _, a := range came {
		if a.Group == groupOther && int(a.N) < len(asked) {
			took = append(took, time.Unix(0, a.At).Sub(asked[a.N]))
		}
	}
	return spreadOf(took), nil
}

// idleSettle is how long a worker may take to become idle after its start.
const idleSettle = 3 * time.Second

// quiet measures an idle installation with many endpoints, and then the memory of its worker with
// requests in flight.
func (x Mixed) quiet(ctx context.Context, l *environment, out *MixedReport) (err error) {
	out.Idle.Registered, out.Memory = x.Registered, Memory{Registered: x.Registered, InFlight: x.InFlight}
	l.Progress.Say("idle: filling in %d endpoints", x.Registered)
	in, err := l.install(ctx, map[string]string{"RUBATO_SLOTS": fmt.Sprint(max(1, x.InFlight))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close(ctx)) }()
	if err := in.multiply(ctx, x.Registered, faraway); err != nil {
		return err
	}
	if err := in.startWorkers(ctx, 1); err != nil {
		return err
	}
	if err := in.idle(ctx, x.IdleFor, &out.Idle); err != nil {
		return err
	}
	l.Progress.Say("  %.2f %% of a core; now %d requests under way", out.Idle.Percent, x.InFlight)
	if _, err := l.sink.take(ctx); err != nil {
		return err
	}
	if err := in.hang(ctx, x.InFlight, soon(in.lead(x.InFlight, loadRate))); err != nil {
		return err
	}
	err = poll(ctx, in.lead(x.InFlight, loadRate)+startPatience, func() (bool, error) {
		came, err := l.sink.count(ctx)
		return came >= x.InFlight, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d requests to be under way: %w", x.InFlight, err)
	}
	if out.Memory.PeakMiB, err = in.parts().peak(); errors.Is(err, errNoProc) {
		return nil
	}
	l.Progress.Say("  peak memory %.1f MiB", out.Memory.PeakMiB)
	return err
}

// idle measures the cost of an idle installation.
func (in *installation) idle(ctx context.Context, span time.Duration, out *Idle) error {
	if !await(ctx, time.Now().Add(idleSettle)) {
		return ctx.Err()
	}
	p := in.parts()
	before, err := p.usage()
	if err != nil {
		return err
	}
	asked, err := in.db.transactions(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	if !await(ctx, begun.Add(span)) {
		return ctx.Err()
	}
	after, err := p.usage()
	if err != nil {
		return err
	}
	askedSince, err := in.db.transactions(ctx)
	if err != nil {
		return err
	}
	used, passed := after.minus(before), time.Since(begun).Seconds()
	out.Worker, out.Postgres = 100*used.worker.Seconds()/passed, 100*used.postgres.Seconds()/passed
	out.Percent = out.Worker + out.Postgres
	out.Transactions = float64(askedSince-asked) / passed
	out.MemoryMiB, err = p.peak()
	return err
}

// transactions returns the number of completed transactions of a database, without those of
// backends that report late.
func (d *database) transactions(ctx context.Context) (n int64, err error) {
	err = d.lab.admin.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", d.name).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("counting the transactions of the database %s: %w", d.name, err)
	}
	return n, nil
}
