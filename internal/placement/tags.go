// Package placement holds the rules of tags: their form, and the capabilities of workers. It is
// pure. The SQL function worker_serves decides which worker may run which endpoint.
package placement

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Form describes a tag for error messages.
const Form = "name=value, such as region=eu: a name of up to 63 characters a-z, 0-9, dot, dash and underscore that begins with a letter, and a value of up to 63 letters, digits, dots, dashes and underscores"

// UnroutableAfter is how long no active worker serves a set of tags before its due times are
// skipped, so that a restart of the only worker skips none.
const UnroutableAfter = 30 * time.Second

// capabilityName is the name of tags that workers find by themselves.
const capabilityName = "capability"

// The capabilities that a worker finds by itself.
const (
	// IPv6 is an address of its own in the public IPv6 network.
	IPv6 = capabilityName + "=ipv6"
	// Proxy is an HTTP proxy between the worker and every target.
	Proxy = capabilityName + "=proxy"
	// ClientCertificates is a key to open secrets, which client certificates need.
	ClientCertificates = capabilityName + "=client-certificates"
)

var tag = regexp.MustCompile(`^[a-z][a-z0-9._-]{0,62}=[A-Za-z0-9._-]{1,63}$`)

// Valid reports whether a text is a tag.
func Valid(text string) bool { return tag.MatchString(text) }

// Parse reads a worker's comma-separated tags. The result is sorted.
func Parse(list string) ([]string, error) {
	var tags []string
	for part := range strings.SplitSeq(list, ",") {
		switch one := strings.TrimSpace(part); {
		case !Valid(one):
			return nil, errors.New("must be a comma-separated list of tags, each " + Form)
		case strings.HasPrefix(one, capabilityName+"="):
			return nil, errors.New("must not name capabilities, because a worker finds them by itself")
		default:
			tags = append(tags, one)
		}
	}
	if tags = Sorted(tags); len(tags) > maxWorkerTags {
		return nil, fmt.Errorf("must be at most %d tags", maxWorkerTags)
	}
	return tags, nil
}

// MaxSets bounds the combinations of required and preferred tags that the endpoints of a tenant
// have. A claim looks for due work of each combination apart, so its cost grows with their number.
const MaxSets = 64

// maxWorkerTags bounds the tags of a worker.
const maxWorkerTags = 32

// Sorted returns tags in their canonical order, each once.
func Sorted(tags []string) []string { return slices.Compact(slices.Sorted(slices.Values(tags))) }
