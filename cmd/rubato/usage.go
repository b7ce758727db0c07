package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
)

// misread says what is wrong with a command line, and where to read how it would be right: at the help of the command that it names.
func misread(parser *kong.Kong, command *kong.Context, err error) usageError {
	at := parser.Model.Node
	if fault, ok := errors.AsType[*kong.ParseError](err); ok {
		command = fault.Context
	}
	if command != nil {
		if named := command.Selected(); named != nil {
			at = named
		}
		if command.Error == nil && len(at.Children) > 0 { // Everything was read, and the command is not all there.
			err = errors.New(commandsOf(at))
		}
	}
	return usageError{fmt.Sprintf("%s\nTry: %s --help", err, at.FullPath())}
}

// commandsOf says which commands a group has.
func commandsOf(group *kong.Node) string {
	var text strings.Builder
	fmt.Fprintln(&text, strings.TrimSpace(group.Path()+" needs a command, one of:"))
	children := slices.DeleteFunc(slices.Clone(group.Children), func(n *kong.Node) bool { return n.Hidden })
	slices.SortFunc(children, func(a, b *kong.Node) int { return strings.Compare(a.Name, b.Name) })
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, child := range children {
		_, _ = fmt.Fprintf(columns, "  %s\t%s\n", child.Name, child.Help)
	}
	_ = columns.Flush() // Nothing fails to be written into a text.
	return strings.TrimSuffix(text.String(), "\n")
}

// readDuration reads a duration as Go does, and says for people what one looks like. The library names the flag.
func readDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	var written string
	if err := ctx.Scan.PopValueInto("duration", &written); err != nil {
		return err
	}
	d, err := time.ParseDuration(written)
	if err != nil {
		return fmt.Errorf("%q is no duration; give a number with its unit, such as %s", written, exampleOf(written))
	}
	target.Set(reflect.ValueOf(d))
	return nil
}

// exampleOf returns a duration that somebody may have meant: in seconds, where the unit alone is missing.
func exampleOf(written string) string {
	if _, err := time.ParseDuration(written + "s"); err == nil && written != "" {
		return written + "s"
	}
	return "10s, 5m or 1h30m"
}
