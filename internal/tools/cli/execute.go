// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/sys/sandbox"
	"verbena/verbs"
)

// Exit statuses.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitCannotRun   = 126 // a program that is there, as shells have it
	ExitNoProgram   = 127
	ExitInterrupted = 130 // 128 + SIGINT, as shells count
)

// usageError is a call that cannot be right.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns an error for a wrong option or argument.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// statusError ends the process with an exit status of its own.
type statusError struct {
	error
	status int
}

func (e statusError) Unwrap() error { return e.error }

// WithStatus gives an error the exit status of the process.
func WithStatus(status int, err error) error { return statusError{err, status} }

// Execute runs the command line and returns the exit status of the process.
func Execute(ctx context.Context, root *cobra.Command, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return Usagef("%w; see '%s --help'", err, cmd.CommandPath())
	})
	defer verbs.Leave()
	err := errors.Join(root.ExecuteContext(ctx), verbs.FlushCapture())
	err = sandbox.Explain(err)
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case ctx.Err() != nil:
		return ExitInterrupted
	case isCobraUsage(err):
		fmt.Fprintf(stderr, "verbena: %s; see '%s --help'\n", oneLine(err), root.CommandPath())
		return ExitUsage
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "verbena: %s\n", oneLine(err))
		return ExitUsage
	}
	fmt.Fprintf(stderr, "verbena: %s\n", oneLine(err))
	if own := (statusError{}); errors.As(err, &own) {
		return own.status
	}
	return ExitFailure
}

// isCobraUsage recognises cobra's own messages about a wrong command line.
func isCobraUsage(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command")
}

// oneLine joins the lines of an error's text.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Args checks the number of arguments, and names the expected ones.
func Args(min, max int, expected string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min || len(args) > max {
			return Usagef("%s takes %s, not %d; see '%s --help'", cmd.CommandPath(), expected,
				len(args), cmd.CommandPath())
		}
		return nil
	}
}

// oneOf writes a choice: "rc, uc or ud".
func oneOf(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Group is the run function of a command that only has subcommands.
func Group(cmd *cobra.Command, args []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if len(args) == 0 {
		return Usagef("say %s; see '%s --help'", oneOf(names), cmd.CommandPath())
	}
	return Usagef("%s has no %q; there are %s", cmd.CommandPath(), args[0],
		strings.Join(names, ", "))
}
