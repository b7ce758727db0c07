package egress

import (
	"net/netip"
	"slices"
)

// metadataAddresses are metadata services, which hand out credentials of their machine. No allow
// list opens them.
var metadataAddresses = addresses(
	"169.254.169.254",              // nearly every cloud
	"168.63.129.16",                // Azure's wire server
	"100.100.100.200",              // Alibaba Cloud
	"169.254.0.23",                 // Tencent Cloud
	"169.254.42.42", "fd00:42::42", // Scaleway
	"169.254.170.2",                  // tasks of Amazon ECS
	"169.254.170.23", "fd00:ec2::23", // pods of Amazon EKS
	"fd00:ec2::254",                   // Amazon EC2
	"169.254.169.252", "fd20:ce::254", // nodes of GKE, Google Compute Engine
	"192.0.0.192", "fd00:c1::a9fe:a9fe", // Oracle Cloud
	"fe80::a9fe:a9fe", // OpenStack
)

func addresses(texts ...string) map[netip.Addr]bool {
	set := make(map[netip.Addr]bool, len(texts))
	for _, text := range texts {
		set[netip.MustParseAddr(text)] = true
	}
	return set
}

// metadata reports whether addr is a metadata service, or carries the address of one. The caller
// unmaps IPv4-mapped addresses.
func metadata(addr netip.Addr) bool {
	addr = addr.WithZone("")
	return metadataAddresses[addr] || slices.ContainsFunc(carried(addr), func(one netip.Addr) bool { return metadataAddresses[one] })
}
