package mcp

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// lastAnswers bounds the wait for pending responses after the agent has closed its input.
const lastAnswers = 30 * time.Second

// Pipe is how an agent that started this process talks to it, such as standard input and output.
// One that says no more, as a file does at its end, or nothing that can be read, still gets its
// answers.
type Pipe struct {
	In  io.ReadCloser
	Out io.WriteCloser
}

// Connect implements the transport of the protocol.
func (p Pipe) Connect(ctx context.Context) (sdk.Connection, error) {
	lines, err := (&sdk.IOTransport{Reader: p.In, Writer: p.Out}).Connect(ctx)
	return &conversation{
		Connection: lines,
		open:       map[jsonrpc.ID]bool{},
		answered:   make(chan struct{}, 1),
	}, err
}

// conversation is a connection that does not end while questions are open.
type conversation struct {
	sdk.Connection

	answered chan struct{} // holds a word when a question was answered

	mu   sync.Mutex
	open map[jsonrpc.ID]bool // a second question under one ID gets no answer of its own
}

// Read returns the next message.
func (c *conversation) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := c.Connection.Read(ctx)
	if asked, is := message.(*jsonrpc.Request); is && asked.IsCall() {
		c.mu.Lock()
		c.open[asked.ID] = true
		c.mu.Unlock()
	}
	if err != nil { // Also after an unparsable message: nothing is read after it.
		c.finish(ctx)
	}
	return message, err
}

// Write sends a message.
func (c *conversation) Write(ctx context.Context, message jsonrpc.Message) error {
	err := c.Connection.Write(ctx, message)
	if answer, is := message.(*jsonrpc.Response); is {
		c.mu.Lock()
		delete(c.open, answer.ID)
		c.mu.Unlock()
		select {
		case c.answered <- struct{}{}:
		default:
		}
	}
	return err
}

// finish waits until every question has its answer.
func (c *conversation) finish(ctx context.Context) {
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	for c.asked() {
		select {
		case <-c.answered:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// asked reports whether a question is open.
func (c *conversation) asked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open) > 0
}
