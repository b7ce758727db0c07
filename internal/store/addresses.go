package store

import (
	"net"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// Addresses returns where the databases that url names are reached over the network, as host:port. One that is reached over a socket
// file, or a URL that cannot be read, has none.
func Addresses(url string) []string {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil
	}
	var list []string
	add := func(host string, port uint16) {
		if !filepath.IsAbs(host) && host != "" {
			list = append(list, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
	}
	add(cfg.Host, cfg.Port)
	for _, other := range cfg.Fallbacks {
		add(other.Host, other.Port)
	}
	return list
}
