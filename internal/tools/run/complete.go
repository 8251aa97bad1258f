// SPDX-License-Identifier: BSD-2-Clause

package run

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"verbena/internal/device"
	"verbena/internal/tools/cli"
)

// completePrograms makes shells complete PROGRAM with the programs in $PATH. Arguments behind it,
// and a name with a slash, are completed with names of files.
func completePrograms(_ *cobra.Command, args []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 || begun == "" || strings.Contains(begun, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir) // a shell passes over folders that do not exist
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), begun) {
				continue
			}
			if st, err := os.Stat(filepath.Join(dir, e.Name())); err == nil &&
				st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveDefault
}

// completeSelection completes the last of --device's words.
func completeSelection(_ *cobra.Command, _ []string, begun string) ([]string,
	cobra.ShellCompDirective) {
	before := begun[:strings.LastIndex(begun, ",")+1]
	var all []string
	for _, word := range append(device.KindNames(), cli.DeviceNames()...) {
		all = append(all, before+word)
	}
	return all, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
