package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// misread converts a parse error to a usage error that refers to the help of the selected command.
func misread(parser *kong.Kong, command *kong.Context, err error) usageError {
	at := parser.Model.Node
	if fault, ok := errors.AsType[*kong.ParseError](err); ok {
		command = fault.Context
	}
	if command != nil {
		if named := command.Selected(); named != nil {
			at = named
		}
		// A group without its subcommand: list the subcommands instead of kong's message.
		if command.Error == nil && len(at.Children) > 0 && strings.HasPrefix(err.Error(), "expected ") {
			err = errors.New(commandsOf(at))
		}
	}
	return usageError{fmt.Sprintf("%s\nTry: %s --help", err, at.FullPath())}
}

// commandsOf lists the subcommands of a group.
func commandsOf(group *kong.Node) string {
	var text strings.Builder
	fmt.Fprintln(&text, strings.TrimSpace(group.Path()+" needs a command, one of:"))
	children := slices.DeleteFunc(slices.Clone(group.Children), func(n *kong.Node) bool { return n.Hidden })
	slices.SortFunc(children, func(a, b *kong.Node) int { return strings.Compare(a.Name, b.Name) })
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, child := range children {
		_, _ = fmt.Fprintf(columns, "  %s\t%s\n", child.Name, child.Help)
	}
	_ = columns.Flush() // A strings.Builder returns no error.
	return strings.TrimSuffix(text.String(), "\n")
}
