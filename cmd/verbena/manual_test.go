// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// updateManual is for a change of a command or an option: go test ./cmd/verbena -run Manual -manual
var updateManual = flag.Bool("manual", false, "write the list of options into packaging/verbena.1")

const manual = "../../packaging/verbena.1"

// The list of options stands between these lines of the manual page.
const (
	optionsBegin = ".\\\" Options of all commands, as cmd/verbena's tests write them.\n"
	optionsEnd   = ".\\\" End of the options.\n"
)

func TestManualPageHasEveryOption(t *testing.T) {
	page, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), optionsBegin)
	old, tail, ok2 := strings.Cut(rest, optionsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no lines %q and %q", manual, optionsBegin, optionsEnd)
	}
	want := optionsOf(root())
	if *updateManual {
		if err := os.WriteFile(manual, []byte(head+optionsBegin+want+optionsEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old != want {
		t.Errorf("%s does not have the options as --help has them: go test ./cmd/verbena -run Manual -manual", manual)
	}
}

// optionsOf writes a section of the manual for each command with options of its
// own. Commands below one command mostly share theirs, and stand in its section.
func optionsOf(root *cobra.Command) string {
	var b strings.Builder
	for _, c := range root.Commands() {
		// cobra's own stand with the commands; run's have a section.
		if c.Name() == "help" || c.Name() == "completion" || c.Name() == "run" {
			continue
		}
		all := leaves(c)
		var list strings.Builder
		for _, o := range optionsOfAll(all) {
			o.write(&list, len(all))
		}
		if list.Len() > 0 {
			fmt.Fprintf(&b, ".Ss verbena %s\n.Bl -tag -width Ds\n%s.El\n", c.Name(), list.String())
		}
	}
	return b.String()
}

// leaves returns the commands below one that do something, or itself.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	if !c.HasAvailableSubCommands() {
		return []*cobra.Command{c}
	}
	if c.LocalNonPersistentFlags().HasAvailableFlags() {
		all = append(all, c) // "verbena stat" does something itself
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, leaves(sub)...)
		}
	}
	return all
}

// option is a flag and the commands that have it.
type option struct {
	flag *pflag.Flag
	of   []string
}

func optionsOfAll(commands []*cobra.Command) (all []*option) {
	for _, c := range commands {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Hidden {
				return
			}
			for _, o := range all {
				if o.flag.Name == f.Name {
					o.of = append(o.of, below(c))
					return
				}
			}
			all = append(all, &option{f, []string{below(c)}})
		})
	}
	return all
}

// below names a command without the first two words, "verbena perf".
func below(c *cobra.Command) string {
	words := strings.Fields(c.CommandPath())
	return strings.Join(words[min(2, len(words)):], " ")
}

// write writes an option as mdoc(7) has it: short and long form, argument, what
// it does, and names the commands that have it where others do not.
func (o *option) write(b *strings.Builder, commands int) {
	argument, usage := pflag.UnquoteUsage(o.flag)
	line := ".It "
	if o.flag.Shorthand != "" {
		line += "Fl " + o.flag.Shorthand + " , "
	}
	line += `Fl \-` + o.flag.Name
	if argument != "" {
		line += " Ar " + argument
	}
	if len(o.of) < commands && o.of[0] != "" {
		usage += "; of " + strings.Join(o.of, ", ")
	}
	fmt.Fprintf(b, "%s\n%s\n", line, filled(escaped(usage), 78))
}

// escaped keeps roff from reading a text as requests.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

// filled breaks a text into lines.
func filled(s string, width int) string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
