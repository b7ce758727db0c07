package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"rubato/internal/contract"
)

// A field that is new in the contract needs no line of the command: its flag, its help and its
// group follow.
func TestEveryScalarFieldHasAFlag(t *testing.T) {
	t.Parallel()
	tags, found := contract.Of("requiredTags")
	require.True(t, found)
	require.Equal(t, "NAME=VALUE", tags.Form, "as a tag is written")
	parser, err := kong.New(newCLI(), kong.Name("rubato"), kong.Bind(&session{}))
	require.NoError(t, err)
	for _, path := range []string{"endpoints create", "endpoints edit"} {
		flags := map[string]*kong.Flag{}
		for _, leaf := range parser.Model.Leaves(true) {
			if !strings.HasPrefix(leaf.Path(), path) {
				continue
			}
			for _, flag := range leaf.Flags {
				flags[flag.Name] = flag
			}
		}
		for _, f := range contract.Fields() {
			flag := flags[f.Flag]
			if f.Kind == contract.Composite {
				require.Nil(t, flag, "%s: %s has parts", path, f.Path)
				continue
			}
			require.NotNil(t, flag, "%s: %s", path, f.Path)
			require.Equal(t, f.Group+":", flag.Group.Title, f.Path)
			require.True(t, strings.HasPrefix(flag.Help, f.Help), "%s: %s", f.Path, flag.Help)
			if f.Kind == contract.List {
				require.Equal(t, f.Form, flag.PlaceHolder, f.Path)
			}
			for _, choice := range f.Choices {
				require.Contains(t, flag.Help, choice, f.Path)
			}
		}
	}
}
