package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCmd is `rubato completion`.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the completion script of a shell.
func (cmd *completionCmd) Run(s *session, k *kong.Kong) error {
	words := completions(k.Model.Node, "")
	switch cmd.Shell {
	case "fish":
		return s.write([]byte(fishScript(words)))
	case "zsh":
		return s.write([]byte("#compdef rubato\nautoload -U +X bashcompinit && bashcompinit\n" + bashScript(words)))
	default:
		return s.write([]byte(bashScript(words)))
	}
}

// completion holds the words that may follow a command.
type completion struct {
	// path is the command, such as "endpoints list"; empty: rubato itself.
	path  string
	words []string
}

// completions returns the words after each command. Subcommands come after their parent.
func completions(node *kong.Node, path string) []completion {
	here := completion{path: path}
	for _, group := range node.AllFlags(true) {
		for _, flag := range group {
			here.words = append(here.words, "--"+flag.Name)
		}
	}
	slices.Sort(here.words)
	var below []completion
	for _, child := range node.Children {
		if child.Hidden {
			continue
		}
		here.words = append(here.words, child.Name)
		below = append(below, completions(child, strings.TrimSpace(path+" "+child.Name))...)
	}
	return append([]completion{here}, below...)
}

func bashScript(all []completion) string {
	var b strings.Builder
	b.WriteString(`_rubato() {
  local path="" words="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "${path:+$path }$word" in
`)
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "      %q) path=%q ;;\n", c.path, c.path)
	}
	b.WriteString("    esac\n  done\n  case \"$path\" in\n")
	for _, c := range all {
		fmt.Fprintf(&b, "    %q) words=%q ;;\n", c.path, strings.Join(c.words, " "))
	}
	b.WriteString("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _rubato rubato\n")
	return b.String()
}

func fishScript(all []completion) string {
	var b strings.Builder
	b.WriteString(`function __rubato_at
  set -l path ""
  for word in (commandline -opc)[2..-1]
    switch (string trim "$path $word")
`)
	for _, c := range all[1:] {
		fmt.Fprintf(&b, "      case %q\n        set path %q\n", c.path, c.path)
	}
	b.WriteString("    end\n  end\n  test \"$path\" = \"$argv[1]\"\nend\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c rubato -n '__rubato_at \"%s\"' -a %q\n", c.path, strings.Join(c.words, " "))
	}
	return b.String()
}
