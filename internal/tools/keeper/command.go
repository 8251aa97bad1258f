// SPDX-License-Identifier: BSD-2-Clause

package keeper

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xdp"
	"verbena/internal/transport/roce"
)

// Command returns "verbena keeper".
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   portshare.KeeperCommand + " DIR",
		Short: "Hold UDP port 4791 for the processes of DIR",
		Long: `Hold UDP port 4791 for this user's processes, pass connection requests on to them,
and notify the peers of processes that are killed. Programs start the keeper by
themselves. It ends a second after the last of them.`,
		Hidden: true,
		Args:   cobra.ExactArgs(1),
	}
	name := strings.TrimPrefix(portshare.Detached, "--")
	detached := cmd.Flags().Bool(name, false, "be the process that stays")
	if err := cmd.Flags().MarkHidden(name); err != nil {
		panic(err) // there is no such option
	}
	slots := cmd.Flags().Int("slots", portshare.Slots, "of the process that starts it")
	if err := cmd.Flags().MarkHidden("slots"); err != nil {
		panic(err) // there is no such option
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if *slots != portshare.Slots {
			return fmt.Errorf("keeper of %d slots, not %d: install one version of Verbena",
				portshare.Slots, *slots)
		}
		if *detached {
			return roce.Keep(args[0], xdp.Attach)
		}
		return portshare.Detach(args[0])
	}
	return cmd
}
