package ready

import "fmt"

// Held describes the held slots of tenants and host slots at hosts. It is empty after all runs and
// calls have ended. It serves tests and diagnosis.
func (q *Queue[E]) Held() (held []string) {
	defer q.lock()()
	for tenant, t := range q.fair.tenants {
		if t.busy != 0 {
			held = append(held, fmt.Sprintf("%d slots of tenant %x", t.busy, tenant))
		}
	}
	for name, at := range q.fair.hosts.byName {
		for tenant, n := range at.byTenant {
			held = append(held, fmt.Sprintf("%d host slots at %s of tenant %x", n, name, tenant))
		}
	}
	return held
}
