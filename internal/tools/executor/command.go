package executor

import (
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/osio/share"
)

// Command returns "verbena executor".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   share.ExecutorCommand + " DIR",
		Short: "Send what the last process that meets in DIR leaves",
		Long: `Wait until the last of this user's processes with connections has ended, and tell
its peers if it was killed. Such processes start this by themselves.`,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
	}
	name := strings.TrimPrefix(share.Detached, "--")
	detached := cmd.Flags().Bool(name, false, "be the process that stays")
	if err := cmd.Flags().MarkHidden(name); err != nil {
		panic(err) // there is no such option
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *detached {
			return share.Execute(args[0])
		}
		return share.Detach(args[0])
	}
	return cmd
}
