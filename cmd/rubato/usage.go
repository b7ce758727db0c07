package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

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
		if command.Error == nil && len(at.Children) > 0 && strings.HasPrefix(err.Error(), "expected ") { // The command is not all there.
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
