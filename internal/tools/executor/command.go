package executor

import (
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/osio/share"
)

// Command returns "verbena executor".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:    share.ExecutorCommand + " DIR",
		Short:  "Send what the last process that meets in DIR leaves",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
	}
	detached := cmd.Flags().Bool(strings.TrimPrefix(share.Detached, "--"), false, "be the process that stays")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *detached {
			return share.Execute(args[0])
		}
		return share.Detach(args[0])
	}
	return cmd
}
