package egress

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"rubato/internal/egress/egresstest"
)

func zipped(t *testing.T, content []byte) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func encoded(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// lines returns n header lines of 1 KiB each.
func lines(n int) string {
	return strings.Repeat("X-Line: "+strings.Repeat("x", 1014)+"\r\n", n)
}

func TestHeadersWithinTheLimitAreKept(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"+lines(60)+"\r\n"))
	response, err := setup(t).Do(t.Context(), get(target.URL()))
	require.NoError(t, err)
	require.Len(t, response.Header.Values("X-Line"), 60)
}

func TestSlowTargetsEndInTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script egresstest.Script
		status int
		body   string
	}{
		"NeverAnswers":    {script: egresstest.Hold("")},
		"StopsInHeader":   {script: egresstest.Hold("HTTP/1.1 200 OK\r\nX-A: b\r\n")},
		"DripsHeader":     {script: egresstest.Endless("HTTP/1.1 200 OK\r\nX-A: ", "b", 2*time.Millisecond)},
		"InterimOnly":     {script: egresstest.Hold("HTTP/1.1 103 Early Hints\r\n\r\n")},
		"StopsInBody":     {script: egresstest.Hold("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\nhalf"), status: 201, body: "half"},
		"StopsInChunk":    {script: egresstest.Hold(chunked + "9\r\nhalf"), status: 200, body: "half"},
		"BodyWithoutEnd":  {script: egresstest.Hold("HTTP/1.1 200 OK\r\n\r\nhalf"), status: 200, body: "half"},
		"EmptyGzipForAge": {script: egresstest.Hold("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"), status: 200},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := get(egresstest.Start(t, test.script).URL())
			request.Timeout = 300 * time.Millisecond
			e, response := fails(t, setup(t), request)
			require.Equal(t, Timeout, e.Reason)
			require.True(t, e.Sent)
			require.GreaterOrEqual(t, e.Phases.Total, request.Timeout)
			require.Less(t, e.Phases.Total, 20*time.Second, "the other limits come later")
			require.Equal(t, test.status, response.StatusCode)
			require.Equal(t, test.body, string(response.Body))
		})
	}
}

func TestDrippingBodyEndsInTime(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Endless(chunked, "1\r\nx\r\n", time.Millisecond))
	request := get(target.URL())
	request.Timeout = 300 * time.Millisecond
	e, response := fails(t, setup(t), request)
	require.Equal(t, Timeout, e.Reason)
	require.Less(t, e.Phases.Total, 20*time.Second, "the other limits come later")
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, strings.Repeat("x", len(response.Body)), string(response.Body))
}

func TestLongBodiesAreCut(t *testing.T) {
	t.Parallel()
	const limit = 1000
	long := strings.Repeat("x", 1<<20)
	tests := map[string]egresstest.Script{
		"Long":        egresstest.Once(egresstest.OK(long)),
		"OneTooMany":  egresstest.Answer(egresstest.OK(long[:limit+1])),
		"Endless":     egresstest.Endless("HTTP/1.1 200 OK\r\n\r\n", long[:4096], 0),
		"Chunked":     egresstest.Endless(chunked, "400\r\n"+long[:0x400]+"\r\n", 0),
		"ClaimsToBig": egresstest.Endless("HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", long[:4096], 0),
		"ThenStops":   egresstest.Hold("HTTP/1.1 200 OK\r\nContent-Length: 1500\r\n\r\n" + long[:limit+1]),
		// Members in a row are one text: 64 MiB.
		"GzipBomb": egresstest.Once(encoded(strings.Repeat(zipped(t, []byte(long)), 64))),
	}
	for name, script := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			request := get(egresstest.Start(t, script).URL())
			request.MaxBody = limit
			response, err := setup(t).Do(t.Context(), request)
			require.NoError(t, err)
			require.Equal(t, 200, response.StatusCode)
			require.True(t, response.Truncated)
			require.Equal(t, long[:limit], string(response.Body))
			require.Less(t, response.Phases.Total, 5*time.Second)
		})
	}
}

func TestBodiesWithinTheLimitAreWhole(t *testing.T) {
	t.Parallel()
	inner := zipped(t, []byte("inner"))
	tests := map[string]struct{ answer, body string }{
		"Empty":       {egresstest.OK(""), ""},
		"NoContent":   {"HTTP/1.1 204 No Content\r\n\r\n", ""},
		"NotModified": {"HTTP/1.1 304 Not Modified\r\n\r\n", ""},
		"AtTheLimit":  {egresstest.OK(strings.Repeat("x", 64<<10)), strings.Repeat("x", 64<<10)},
		"Binary":      {egresstest.OK("\x00\xff\x1b[31m"), "\x00\xff\x1b[31m"},
		"Chunked":     {chunked + "3\r\nabc\r\n0\r\n\r\n", "abc"},
		"UntilClose":  {"HTTP/1.0 200 OK\r\n\r\nabc", "abc"},
		"Gzip":        {encoded(zipped(t, []byte("plain"))), "plain"},
		"NestedGzip":  {encoded(zipped(t, []byte(inner))), inner},
		"OldName":     {strings.Replace(encoded(zipped(t, []byte("plain"))), "gzip", "X-GZip", 1), "plain"},
		"Interim":     {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + egresstest.OK("late"), "late"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := setup(t).Do(t.Context(), get(egresstest.Start(t, egresstest.Once(test.answer)).URL()))
			require.NoError(t, err)
			require.False(t, response.Truncated)
			require.Equal(t, test.body, string(response.Body))
		})
	}
}

func TestBrokenAnswersAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script egresstest.Script
		reason Reason
		status int
		body   string
	}{
		"Garbage":        {egresstest.Once("\x00\x01\x02 garbage\r\n\r\n"), ProtocolError, 0, ""},
		"OtherProtocol":  {egresstest.Once("220 mail.example.com ESMTP\r\n"), ProtocolError, 0, ""},
		"BadStatus":      {egresstest.Once("HTTP/1.1 abc\r\n\r\n"), ProtocolError, 0, ""},
		"BadHeader":      {egresstest.Once("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), ProtocolError, 0, ""},
		"TwoLengths":     {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"), ProtocolError, 0, ""},
		"NegativeLength": {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ProtocolError, 0, ""},
		"HeaderBomb":     {egresstest.HeaderBomb(), ResponseTooLarge, 0, ""},
		"LongLine":       {egresstest.Endless("HTTP/1.1 200 OK\r\nX-A: ", strings.Repeat("b", 4096), 0), ResponseTooLarge, 0, ""},
		"LongHeader":     {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + lines(70) + "\r\n"), ResponseTooLarge, 0, ""},
		"InterimFlood":   {egresstest.Endless("", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 0), ResponseTooLarge, 0, ""},
		"Switch":         {egresstest.Hold("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), ProtocolError, 0, ""},
		"BadChunk":       {egresstest.Once(chunked + "3\r\nabc\r\nzz\r\n"), ProtocolError, 200, "abc"},
		"BadGzip":        {egresstest.Once(encoded("this is not compressed at all")), ProtocolError, 200, ""},
		"CutGzip":        {egresstest.Answer(encoded(zipped(t, []byte("plain"))[:12])), ProtocolError, 200, "p"},
		"CutGzipHead":    {egresstest.Once(encoded("\x1f\x8b\x08\x00")), ProtocolError, 200, ""},
		"CutGzipAndGone": {egresstest.Once(encoded(zipped(t, []byte("plain"))[:12])), ProtocolError, 200, "p"},
		"GzipThenMore":   {egresstest.Once(encoded(zipped(t, []byte("plain")) + "and more")), ProtocolError, 200, "plain"},
		"Status000":      {egresstest.Once("HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"Status012":      {egresstest.Once("HTTP/1.1 012 Low\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"StatusPlus":     {egresstest.Once("HTTP/1.1 +20 Signed\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"Status1000":     {egresstest.Once("HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"FoldedFirst":    {egresstest.Once("HTTP/1.1 200 OK\r\n X-A: b\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"BareCR":         {egresstest.Once("HTTP/1.1 200 OK\r\nX-A: b\rX-B: c\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"NULInHeader":    {egresstest.Once("HTTP/1.1 200 OK\r\nX-A: b\x00\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"NamelessHeader": {egresstest.Once("HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n"), ProtocolError, 0, ""},
		"SignedLength":   {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab"), ProtocolError, 0, ""},
		"LengthOfAges":   {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab"), ProtocolError, 0, ""},
		"ListOfLengths":  {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nab"), ProtocolError, 0, ""},
		"OtherEncoding":  {egresstest.Once("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"), ProtocolError, 0, ""},
		"ChunkedTwice":   {egresstest.Once("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), ProtocolError, 0, ""},
		"ChunkOfAges":    {egresstest.Once(chunked + "ffffffffffffffffff\r\nabc"), ProtocolError, 200, ""},
		"NegativeChunk":  {egresstest.Once(chunked + "-3\r\nabc"), ProtocolError, 200, ""},
		"LongChunkLine":  {egresstest.Once(chunked + "3;" + strings.Repeat("x", 70<<10) + "\r\nabc\r\n0\r\n\r\n"), ProtocolError, 200, ""},
		"OverlongChunk":  {egresstest.Once(chunked + "3\r\nabcd\r\n0\r\n\r\n"), ProtocolError, 200, "abc"},
		"EndlessTrailer": {egresstest.Endless(chunked+"3\r\nabc\r\n0\r\n", strings.Repeat("X-T: abcdefgh\r\n", 1000), 0), ProtocolError, 200, "abc"},
		"BadTrailer":     {egresstest.Once(chunked + "3\r\nabc\r\n0\r\nno colon\r\n\r\n"), ProtocolError, 200, "abc"},
		"NoAnswer":       {egresstest.CloseAfterReading(0), ConnectionLost, 0, ""},
		"CutStatus":      {egresstest.Once("HTTP/1.1 2"), ConnectionLost, 0, ""},
		"CutHeader":      {egresstest.Once("HTTP/1.1 200 OK\r\nX-A: b\r\n"), ConnectionLost, 0, ""},
		"ShortBody":      {egresstest.Once("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), ConnectionLost, 200, "short"},
		"CutChunk":       {egresstest.Once(chunked + "9\r\nshort"), ConnectionLost, 200, "short"},
		"MissingEnd":     {egresstest.Once(chunked + "5\r\nshort\r\n"), ConnectionLost, 200, "short"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, response := fails(t, setup(t), get(egresstest.Start(t, test.script).URL()+"/p?token=canary"))
			require.Equal(t, test.reason, e.Reason, "%v", e.Err)
			require.True(t, e.Sent)
			require.Equal(t, test.status, response.StatusCode)
			require.Equal(t, test.body, string(response.Body))
			require.NotContains(t, e.Error(), "canary")
		})
	}
}

// TestErrorsNameTheDefectOfAnAnswer requires the texts of errors that share a reason.
func TestErrorsNameTheDefectOfAnAnswer(t *testing.T) {
	t.Parallel()
	packed := zipped(t, []byte("plain"))
	flipped := func(at int) string { return encoded(packed[:at] + string([]byte{^packed[at]}) + packed[at+1:]) }
	for name, test := range map[string]struct{ answer, want string }{
		"NoGzip":       {encoded("this is not compressed at all"), "the answer says that it is gzip, and is not"},
		"CorruptGzip":  {flipped(10), "the answer says that it is gzip, and is not"},
		"BadChecksum":  {flipped(len(packed) - 8), "the answer says that it is gzip, and is not"},
		"GzipThenMore": {encoded(packed + "and much more of it"), "the answer says that it is gzip, and is not"},
		"HalfGzip":     {encoded(packed[:12]), "the compressed answer ends in the middle"},
		"Status":       {"HTTP/1.1 000 None\r\nContent-Length: 0\r\n\r\n", "the answer has a status that is not one of 200 to 999"},
		"Garbage":      {"220 mail.example.com ESMTP\r\n", "the answer is not valid HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, _ := fails(t, setup(t), get(egresstest.Start(t, egresstest.Once(test.answer)).URL()))
			require.Equal(t, ProtocolError, e.Reason)
			_, said, _ := strings.Cut(e.Error(), "protocol_error: ")
			require.Equal(t, test.want, said, "%v", e.Err)
		})
	}
}

// TestBytesBeyondTheContentLengthAreIgnored sends more bytes than the length of the answer, some of
// which look like another answer.
func TestBytesBeyondTheContentLengthAreIgnored(t *testing.T) {
	t.Parallel()
	second := egresstest.Status("503 Unavailable", "smuggled")
	for name, test := range map[string]struct {
		method, answer string
		status         int
		body           string
	}{
		"ShortLength":   {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab" + second, 200, "ab"},
		"SameTwice":     {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab" + second, 200, "ab"},
		"LengthAndMore": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + second, 200, "abc"},
		"NoContent":     {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello" + second, 204, ""},
		"NotModified":   {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello" + second, 304, ""},
		"Head":          {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" + second, 200, ""},
		"BareLF":        {"GET", "HTTP/1.1 200 OK\nContent-Length: 2\n\nab" + second, 200, "ab"},
		"Folded":        {"GET", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nab" + second, 200, "ab"},
		"Labelled":      {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nab" + second, 200, "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target, client := egresstest.Start(t, egresstest.Once(test.answer)), setup(t)
			request := get(target.URL())
			request.Method = test.method
			for range 2 {
				response, err := client.Do(t.Context(), request)
				require.NoError(t, err)
				require.Equal(t, test.status, response.StatusCode)
				require.Equal(t, test.body, string(response.Body))
			}
			require.Equal(t, 2, target.Conns())
		})
	}
}

func TestManyHostileTargetsAtOnceLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	client := setup(t)
	target := egresstest.Start(t, egresstest.Endless(chunked, "400\r\n"+strings.Repeat("x", 0x400)+"\r\n", 0))
	done := make(chan error, 100)
	for range cap(done) {
		go func() {
			response, err := client.Do(t.Context(), get(target.URL()))
			if err == nil && (!response.Truncated || len(response.Body) != 64<<10) {
				err = fmt.Errorf("kept %d bytes, truncated %v", len(response.Body), response.Truncated)
			}
			done <- err
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
}

func TestCallersEndTheirCalls(t *testing.T) {
	t.Parallel()
	arrived, hungUp := make(chan struct{}), make(chan struct{})
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		c.Next()
		close(arrived)
		c.AwaitHangup()
		close(hungUp)
	})
	_, err := setup(t).Do(canceledAfter(t, arrived), get(target.URL()))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, Canceled, e.Reason)
	require.True(t, e.Sent)
	<-hungUp

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = setup(t).Do(ended, get(target.URL()))
	require.ErrorAs(t, err, &e)
	require.Equal(t, Canceled, e.Reason)
	require.False(t, e.Sent)

	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err = setup(t).Do(late, get(target.URL()))
	require.ErrorAs(t, err, &e)
	require.Equal(t, Timeout, e.Reason)
}

func TestCookiesAreNotKept(t *testing.T) {
	t.Parallel()
	target := egresstest.Start(t, egresstest.Answer("HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n"))
	client := setup(t)
	for range 2 {
		response, err := client.Do(t.Context(), get(target.URL()))
		require.NoError(t, err)
		require.Equal(t, http.Header{"Set-Cookie": {"a=b"}, "Content-Length": {"0"}}, response.Header)
	}
	for _, request := range target.Requests() {
		require.Empty(t, request.Header.Values("Cookie"))
	}
}

func TestPhasesAddUp(t *testing.T) {
	t.Parallel()
	const pause = 30 * time.Millisecond
	target := egresstest.Start(t, func(c *egresstest.Conn) {
		for {
			if _, ok := c.Next(); !ok {
				return
			}
			<-time.After(pause)
			c.Write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
			<-time.After(pause)
			c.Write("cd")
		}
	})
	client := setupClient(t, Config{Rules: Rules{Allow: loopback()}}, named(t, map[string][]string{"target.test": {"127.0.0.1"}}))
	url := fmt.Sprintf("http://target.test:%d/", target.Port())
	for call := range 2 {
		response, err := client.Do(t.Context(), get(url))
		require.NoError(t, err)
		p := response.Phases
		if call == 0 {
			require.Positive(t, p.DNS)
			require.Positive(t, p.Connect)
		} else {
			require.Zero(t, p.DNS+p.Connect)
		}
		require.Zero(t, p.TLS)
		require.GreaterOrEqual(t, p.Wait, pause)
		require.Positive(t, p.Transfer)
		require.GreaterOrEqual(t, p.Wait+p.Transfer, 2*pause)
		require.GreaterOrEqual(t, p.Total, p.DNS+p.Connect+p.TLS+p.Wait+p.Transfer)
	}
}
