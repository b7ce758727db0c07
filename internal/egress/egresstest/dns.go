package egresstest

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

const (
	typeA     = 1
	typeCNAME = 5
	typeAAAA  = 28

	headerLen = 12 // bytes of a DNS message header
	maxChain  = 16 // maximum aliases per answer
)

// Question is a query to the name server.
type Question struct {
	Name string // lower case, without the final dot
	IPv6 bool   // AAAA query instead of A
}

// DNS is a name server with answers from a test. Records have a TTL of zero, so that no resolver
// caches them.
type DNS struct {
	socket net.PacketConn
	answer func(Question) []netip.Addr
	alias  map[string]string // CNAME records
	done   sync.WaitGroup

	mu     sync.Mutex
	closed bool
	// asking holds the sockets of resolvers. close closes them, because a resolver would otherwise
	// wait for its timeout after the test.
	asking []net.Conn
}

// StartDNS serves answers until the test ends. It omits addresses of the other family.
func StartDNS(tb testing.TB, answer func(Question) []netip.Addr) *DNS {
	tb.Helper()
	return StartAliases(tb, nil, answer)
}

// StartAliases is [StartDNS] with CNAME records. An answer holds the whole chain and the addresses
// at its end.
func StartAliases(tb testing.TB, alias map[string]string, answer func(Question) []netip.Addr) *DNS {
	tb.Helper()
	socket, err := new(net.ListenConfig).ListenPacket(tb.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listening for name queries: %v", err)
	}
	d := &DNS{
		socket: socket,
		answer: answer,
		alias:  alias,
	}
	d.done.Go(d.serve)
	tb.Cleanup(d.close)
	return d
}

// Resolver returns a resolver that queries only d.
func (d *DNS) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed {
			return nil, net.ErrClosed
		}
		c, err := new(net.Dialer).DialContext(ctx, "udp", d.socket.LocalAddr().String())
		if err == nil {
			d.asking = append(d.asking, c)
		}
		return c, err
	}}
}

func (d *DNS) close() {
	d.socket.Close()
	d.mu.Lock()
	d.closed = true
	for _, c := range d.asking {
		c.Close()
	}
	d.mu.Unlock()
	d.done.Wait()
}

func (d *DNS) serve() {
	buffer := make([]byte, 1500)
	for {
		n, from, err := d.socket.ReadFrom(buffer)
		if err != nil {
			return
		}
		if reply := d.reply(buffer[:n]); reply != nil {
			_, _ = d.socket.WriteTo(reply, from)
		}
	}
}

// reply builds the answer to query: the question, then the alias chain and one record per address.
func (d *DNS) reply(query []byte) []byte {
	if len(query) < headerLen {
		return nil
	}
	var labels []string
	end := headerLen
	for end < len(query) && query[end] != 0 {
		next := end + 1 + int(query[end])
		if next > len(query) {
			return nil
		}
		labels = append(labels, string(query[end+1:next]))
		end = next
	}
	end += 5 // the root label, type and class
	if end > len(query) {
		return nil
	}
	kind := binary.BigEndian.Uint16(query[end-4:])
	records, count := []byte(nil), uint16(0)
	if kind == typeA || kind == typeAAAA {
		question := Question{Name: strings.ToLower(strings.Join(labels, ".")), IPv6: kind == typeAAAA}
		chain, links := d.chain(&question)
		records, count = addressRecords(question.Name, d.answer(question), question.IPv6)
		records, count = append(chain, records...), count+links
	}
	reply := binary.BigEndian.AppendUint16(nil, binary.BigEndian.Uint16(query))
	reply = binary.BigEndian.AppendUint16(reply, 0x8180) // a response, recursion available, no error
	reply = binary.BigEndian.AppendUint16(reply, 1)
	reply = binary.BigEndian.AppendUint16(reply, count)
	reply = append(reply, 0, 0, 0, 0)
	reply = append(reply, query[headerLen:end]...)
	return append(reply, records...)
}

// chain returns the CNAME records from the name of q, and replaces the name by the end of the
// chain.
func (d *DNS) chain(q *Question) (records []byte, count uint16) {
	for ; count < maxChain; count++ {
		other, is := d.alias[q.Name]
		if !is {
			break
		}
		records = append(records, record(q.Name, typeCNAME, wireName(other))...)
		q.Name = other
	}
	return records, count
}

func addressRecords(name string, addrs []netip.Addr, v6 bool) (records []byte, count uint16) {
	for _, addr := range addrs {
		if addr.Is6() != v6 {
			continue
		}
		kind := uint16(typeA)
		if v6 {
			kind = typeAAAA
		}
		records = append(records, record(name, kind, addr.AsSlice())...)
		count++
	}
	return records, count
}

func record(name string, kind uint16, data []byte) []byte {
	r := binary.BigEndian.AppendUint16(wireName(name), kind)
	r = append(r, 0, 1, 0, 0, 0, 0) // class IN, time to live 0
	r = binary.BigEndian.AppendUint16(r, uint16(len(data)))
	return append(r, data...)
}

// wireName returns a name in wire format.
func wireName(name string) []byte {
	var wire []byte
	for label := range strings.SplitSeq(name, ".") {
		wire = append(append(wire, byte(len(label))), label...)
	}
	return append(wire, 0)
}
