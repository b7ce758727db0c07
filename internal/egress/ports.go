package egress

import "slices"

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last uint16 }

// refusedPort reports whether port usually serves a protocol that the text of an HTTP request can
// misuse.
func refusedPort(port uint16) bool {
	switch port {
	case 22, 23, 25, 53, 2375, 5432, 6379, 9200, 11211:
		return true
	default:
		return false
	}
}

// permitsPort reports whether port may be called on a host without an allow list entry.
func (p *Policy) permitsPort(port uint16) bool {
	if len(p.rules.Ports) == 0 {
		return !refusedPort(port)
	}
	return slices.ContainsFunc(p.rules.Ports, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}
