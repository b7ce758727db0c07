package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// askable reports whether standard input is a terminal, so that a question reaches a person.
func (s *session) askable() bool {
	file, is := s.stdin.(*os.File)
	return is && isatty.IsTerminal(file.Fd())
}

// confirm asks whether to go on. The error is for everything but a yes, an interrupt among it: the read itself cannot be ended.
func (s *session) confirm(ctx context.Context, question string) error {
	_, _ = fmt.Fprintf(s.stderr, "%s Only yes goes on: ", visible(question))
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.stdin).ReadString('\n') // No answer is a no.
		answered <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("canceled; nothing was changed: %w", ctx.Err())
	case answer := <-answered:
		if answer != "yes" {
			return usageError{"canceled; nothing was changed"}
		}
		return nil
	}
}
