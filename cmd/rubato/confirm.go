package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
)

// askable reports whether standard input is a terminal. Otherwise no user could answer a question.
func (s *session) askable() bool {
	file, is := s.stdin.(*os.File)
	return is && isatty.IsTerminal(file.Fd())
}

// confirm asks a question and returns an error unless the answer is yes or if ctx ends first. The
// read runs in a goroutine of its own, because it cannot be canceled; that goroutine ends with the
// process.
func (s *session) confirm(ctx context.Context, question string) error {
	_, _ = fmt.Fprintf(s.stderr, "%s Only yes goes on: ", visible(question))
	answered := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(s.stdin).ReadString('\n') // A failed read is an empty answer, which declines.
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
