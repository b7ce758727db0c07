package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"rubato/internal/notation"
)

// minKey is the minimum length of an API key, because shorter keys can be guessed.
const minKey = 8

// maxSlots keeps a worker within the usual limit of file descriptors of a process.
const maxSlots = 10000

func databaseURL(target *string, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("must be a URL such as postgres://user:password@host:5432/database")
	}
	*target = value
	return nil
}

func serverURL(target *string, value string) error {
	_, err := httpURL(value)
	*target = strings.TrimRight(value, "/")
	return err
}

func httpURL(value string) (*url.URL, error) {
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be a URL such as http://127.0.0.1:8080")
	}
	return u, nil
}

func baseURL(target *string, value string) (err error) {
	*target, err = BaseURL(value)
	return err
}

// BaseURL parses the URL of an API server and removes a trailing slash. It refuses a user and a
// password, because messages show the URL and because clients would not send them beside an API
// key.
func BaseURL(value string) (string, error) {
	u, err := httpURL(value)
	if err != nil {
		return "", err
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("must have no user, password or parameters, which would not be sent: put the API key into " + APIKey)
	}
	return strings.TrimRight(value, "/"), nil
}

func publicURL(target *string, value string) error {
	u, err := httpURL(value)
	if err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must be a URL without a user, parameters or a fragment, such as https://rubato.example.com")
	}
	*target = strings.TrimRight(value, "/")
	return nil
}

func address(target *string, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("must be host:port, such as 127.0.0.1:8080 or :8080")
	}
	*target = value
	return nil
}

func key(target *string, value string) error {
	blank := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(value) < minKey || strings.ContainsFunc(value, blank) {
		return fmt.Errorf("must be at least %d printable ASCII characters without spaces", minKey)
	}
	*target = value
	return nil
}

func prefixes(target *[]netip.Prefix, value string) error {
	var list []netip.Prefix
	for part := range strings.SplitSeq(value, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			return errors.New("must be prefixes such as 127.0.0.0/8, separated by commas")
		}
		list = append(list, p.Masked())
	}
	*target = list
	return nil
}

func joined(list []netip.Prefix) string {
	texts := make([]string, 0, len(list))
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ",")
}

func count(target *int, value string) error { return countUpTo(maxSlots, target, value) }

func choice(target *bool, value string) error {
	switch strings.ToLower(value) {
	case "true", "false":
		*target = strings.EqualFold(value, "true")
		return nil
	default:
		return errors.New("must be true or false")
	}
}

// maxRate is above the throughput of one server.
const maxRate = 100_000

func rate(target *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxRate {
		return fmt.Errorf("must be a whole number from 0 (no limit) to %d", maxRate)
	}
	*target = n
	return nil
}

// maxKeys is far more than an operator can oversee.
const maxKeys = 100_000

func keyLimit(target *int, value string) error { return countUpTo(maxKeys, target, value) }

// maxWaiting is bounded because a change of an endpoint reads all its queued runs.
const maxWaiting = 100_000

func waitingLimit(target *int, value string) error { return countUpTo(maxWaiting, target, value) }

// countUpTo parses a whole number from 1 to most.
func countUpTo(most int, target *int, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("must be a whole number from 1 to %d", most)
	}
	*target = n
	return nil
}

// origins parses origins in the form of browsers: scheme, host, and the port unless it is the
// default. There is no wildcard.
func origins(target *[]string, value string) error {
	var list []string
	for part := range strings.SplitSeq(value, ",") {
		origin := strings.TrimSpace(part)
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Scheme+"://"+u.Host != origin || strings.ToLower(origin) != origin || strings.Contains(u.Host, "*") {
			return errors.New("must be origins such as https://console.example.com, in lower case and separated by commas")
		}
		list = append(list, origin)
	}
	*target = list
	return nil
}

func level(target *slog.Level, value string) error {
	for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(value, l.String()) {
			*target = l
			return nil
		}
	}
	return errors.New("must be debug, info, warn or error")
}

func format(target *Format, value string) error {
	switch f := Format(strings.ToLower(value)); f {
	case FormatAuto, FormatText, FormatJSON:
		*target = f
		return nil
	default:
		return errors.New("must be auto, text or json")
	}
}

// span is the range of a duration, both ends included.
type span struct{ least, most time.Duration }

func (s span) read(target *time.Duration, value string) error {
	d, err := notation.ParseDuration(value, "")
	if err != nil || d < s.least || d > s.most {
		return fmt.Errorf("must be a duration from %s to %s, such as %s", brief(s.least), brief(s.most), brief(max(s.least, time.Second)))
	}
	*target = d
	return nil
}

// brief formats a duration without zero parts: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
