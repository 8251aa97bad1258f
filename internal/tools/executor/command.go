// SPDX-License-Identifier: BSD-2-Clause

package executor

import (
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/sys/portshare"
)

// Command returns "verbena executor".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   portshare.ExecutorCommand + " DIR",
		Short: "Send what the last process that meets in DIR leaves",
		Long: `Wait until the last of this user's processes with connections has ended, and tell
its peers if it was killed. Such processes start this by themselves.`,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
	}
	name := strings.TrimPrefix(portshare.Detached, "--")
	detached := cmd.Flags().Bool(name, false, "be the process that stays")
	if err := cmd.Flags().MarkHidden(name); err != nil {
		panic(err) // there is no such option
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *detached {
			return portshare.Execute(args[0])
		}
		return portshare.Detach(args[0])
	}
	return cmd
}
