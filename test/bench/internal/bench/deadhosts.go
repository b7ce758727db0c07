package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rubato/client"
)

// DeadHosts compares a steady load alone, and beside endpoints on hosts that refuse connections.
type DeadHosts struct {
	Steady

	// Endpoints is the number of endpoints on dead hosts, of which each has ten. Their breakers reach
	// the longest window after 16 minutes.
	Endpoints int
}

// endpointsPerHost is the number of endpoints of a dead host.
const endpointsPerHost = 10

// DeadHostsReport holds both measurements of the living endpoints. Processor time is that of all
// runs, divided by those of the living ones.
type DeadHostsReport struct {
	Endpoints int     `json:"endpoints"`
	Hosts     int     `json:"hosts"`
	SettleMs  int64   `json:"settleMs"` // from the first runs on dead hosts to the measurement
	Without   Measure `json:"without"`
	With      Measure `json:"with"`
}

// Run measures both loads. Only Rubato takes part.
func (d DeadHosts) Run(ctx context.Context) (_ Report, err error) {
	l, err := openLab(ctx, d.Host)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, l.close(context.WithoutCancel(ctx))) }()
	d.Alone = true
	var with []Measure
	r, err := d.hold(ctx, l, d.workload(), func(ctx context.Context, _ int) (Measure, error) {
		alone, err := l.steady(ctx, d.Steady)
		if err != nil {
			return alone, err
		}
		l.Progress.Say("  lag p99 %.2f ms; now with %d endpoints on dead hosts", alone.StartLagMs.P99, d.Endpoints)
		beside := d.Steady
		beside.extra = d.register
		m, err := l.steady(ctx, beside)
		with = append(with, m)
		return alone, err
	})
	if err != nil {
		return Report{}, err
	}
	d.describe(&r, "steady --dead")
	r.DeadHosts = &DeadHostsReport{
		Endpoints: d.Endpoints,
		Hosts:     hostOfDead(d.Endpoints-1) + 1,
		SettleMs:  d.Settle.Milliseconds(),
		Without:   r.Measure,
		With:      medianOf(with),
	}
	return r, nil
}

// hostOfDead returns the number of the host of an endpoint.
func hostOfDead(n int) int { return n / endpointsPerHost }

// register registers the endpoints on dead hosts, due spread over their interval. Each host is a
// loopback address of its own, on whose port 9 nothing listens.
func (d DeadHosts) register(ctx context.Context, in *installation, w workload) error {
	r, err := in.registrar(registerConns)
	if err != nil {
		return err
	}
	dead := workload{Jobs: d.Endpoints, Due: w.Due.Add(-d.Settle), Span: d.Every}
	_, err = r.load(ctx, d.Endpoints, func(n int) client.EndpointSpec {
		spec := in.db.lab.endpoint(groupOther, n, d.Every, dead.dueOf(n))
		spec.URL = "http://" + hostAddress(deadHosts, hostOfDead(n)) + ":9/"
		return spec
	})
	return err
}

// table returns both measurements as a table.
func (r DeadHostsReport) table() Table {
	return Table{
		Title:  fmt.Sprintf("steady load, alone and beside %d endpoints on %d hosts that are dead for %s", r.Endpoints, r.Hosts, time.Duration(r.SettleMs)*time.Millisecond),
		Header: append([]string{"DEAD"}, measureHeader()...),
		Rows: [][]string{
			append([]string{"none"}, r.Without.row()...),
			append([]string{fmt.Sprint(r.Endpoints)}, r.With.row()...),
		},
	}
}
