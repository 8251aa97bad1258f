// SPDX-License-Identifier: BSD-2-Clause

package stat

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"verbena/internal/stats"
	"verbena/internal/tools/cli"
)

// completePatience bounds the wait of a shell for processes that are stopped.
const completePatience = time.Second

// completePIDs returns a function that has shells complete process ids: those that have devices
// open, or only those that keep a ring of packets.
func completePIDs(ring bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if ring && len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completePatience)
		defer cancel()
		all, _ := stats.Collect(ctx, cli.RuntimeDir()) // a shell has no use for the error
		return pids(all, ring), cobra.ShellCompDirectiveNoFileComp
	}
}

// pids returns process ids, each with the name of its program.
func pids(all []stats.Snapshot, ring bool) (list []string) {
	for _, s := range all {
		if !ring || s.Ring > 0 {
			list = append(list, cobra.CompletionWithDesc(strconv.Itoa(s.PID), s.Command))
		}
	}
	return list
}
