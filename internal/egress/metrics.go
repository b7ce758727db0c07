package egress

import "github.com/prometheus/client_golang/prometheus"

// countDenials returns the counter of refused calls, by the rule that refused them.
func countDenials(r prometheus.Registerer) func(Denial) {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "rubato_egress_denied_total", Help: "Calls that the rules of this deployment refused, by the rule.",
	}, []string{"reason"})
	for _, denial := range denials() {
		counter.WithLabelValues(string(denial))
	}
	if r != nil {
		r.MustRegister(counter)
	}
	return func(d Denial) { counter.WithLabelValues(string(d)).Inc() }
}
