package egresstest

import (
	"bytes"
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// H2Script serves one HTTP/2 connection after the preface. The connection is closed when it
// returns.
type H2Script func(c *H2Conn)

// H2Conn is the HTTP/2 connection of a script, with direct access to frames.
type H2Conn struct {
	*http2.Framer

	target *Target
	number int
	header bytes.Buffer // buffer of encoded header blocks
	coder  *hpack.Encoder
}

// StartH2 serves script over TLS until the test ends, with the given settings. It accepts only
// clients that offer HTTP/2.
func StartH2(tb testing.TB, cfg *tls.Config, script H2Script, settings ...http2.Setting) *Target {
	tb.Helper()
	cfg = cfg.Clone()
	cfg.NextProtos = []string{http2.NextProtoTLS}
	return serve(tb, "https", tls.NewListener(listen(tb, "127.0.0.1:0"), cfg), func(c *Conn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(c.reader, preface); err != nil || string(preface) != http2.ClientPreface {
			return
		}
		h := &H2Conn{
			Framer: http2.NewFramer(c.conn, c.reader),
			target: c.target,
			number: c.number,
		}
		h.coder = hpack.NewEncoder(&h.header)
		h.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		h.AllowIllegalWrites = true
		if h.WriteSettings(settings...) == nil {
			script(h)
		}
	})
}

// Next reads and records the next request, and acknowledges settings and pings before it. It
// returns false if the client has disconnected.
func (c *H2Conn) Next() (r Request, stream uint32, ok bool) {
	open := map[uint32]*Request{}
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return Request{}, 0, false
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() && c.WriteSettingsAck() != nil {
				return Request{}, 0, false
			}
		case *http2.PingFrame:
			if !f.IsAck() && c.WritePing(true, f.Data) != nil {
				return Request{}, 0, false
			}
		case *http2.MetaHeadersFrame:
			open[f.StreamID] = c.begin(f)
			if f.StreamEnded() {
				return c.end(open, f.StreamID), f.StreamID, true
			}
		case *http2.DataFrame:
			if request := open[f.StreamID]; request != nil {
				request.Body = append(request.Body, f.Data()...)
				if f.StreamEnded() {
					return c.end(open, f.StreamID), f.StreamID, true
				}
			}
		}
	}
}

func (c *H2Conn) begin(f *http2.MetaHeadersFrame) *Request {
	r := &Request{
		Conn:   c.number,
		Method: f.PseudoValue("method"),
		URI:    f.PseudoValue("path"),
		Header: http.Header{},
	}
	for _, field := range f.RegularFields() {
		r.Header.Add(field.Name, field.Value)
	}
	return r
}

func (c *H2Conn) end(open map[uint32]*Request, stream uint32) Request {
	r := *open[stream]
	c.target.record(r)
	return r
}

// Head writes the header of an answer with status.
func (c *H2Conn) Head(stream uint32, status string, fields map[string]string, end bool) bool {
	return c.WriteHeaders(http2.HeadersFrameParam{
		StreamID:      stream,
		BlockFragment: c.Block(status, fields),
		EndHeaders:    true,
		EndStream:     end,
	}) == nil
}

// Block returns the encoded header block of an answer.
func (c *H2Conn) Block(status string, fields map[string]string) []byte {
	c.header.Reset()
	_ = c.coder.WriteField(hpack.HeaderField{Name: ":status", Value: status})
	for name, value := range maps.All(fields) {
		_ = c.coder.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	return bytes.Clone(c.header.Bytes())
}

// AwaitHangup reads frames until the client closes the connection.
func (c *H2Conn) AwaitHangup() {
	for {
		if _, err := c.ReadFrame(); err != nil {
			return
		}
	}
}

// AnswerH2 gives the same answer to every request and keeps the connection open.
func AnswerH2(body string) H2Script {
	return func(c *H2Conn) { AnswerH2Times(c, body, -1) }
}

// AnswerH2Times answers n requests, or all if n is negative. It returns false if the client has
// disconnected.
func AnswerH2Times(c *H2Conn, body string, n int) bool {
	for ; n != 0; n-- {
		_, stream, ok := c.Next()
		if !ok || !c.Head(stream, "200", nil, body == "") || body != "" && c.WriteData(stream, true, []byte(body)) != nil {
			return false
		}
	}
	return true
}
