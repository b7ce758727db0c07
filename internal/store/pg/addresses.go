package pg

import (
	"net"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// Addresses returns the network addresses of the databases in url, as host:port. It leaves out Unix
// sockets. For a URL that cannot be parsed it returns nil.
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
