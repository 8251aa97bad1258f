// SPDX-License-Identifier: BSD-2-Clause

package cli

import (
	"github.com/spf13/cobra"

	"verbena/verbs"
)

// CompleteDevices has shells complete the value of --ib-dev, of a command and of
// those below it.
func CompleteDevices(cmd *cobra.Command) {
	if cmd.Flags().Lookup("ib-dev") != nil {
		must(cmd.RegisterFlagCompletionFunc("ib-dev",
			func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return DeviceNames(), cobra.ShellCompDirectiveNoFileComp
			}))
	}
	for _, c := range cmd.Commands() {
		CompleteDevices(c)
	}
}

// DeviceNames returns the names of the devices, kinds together. There are none
// where they cannot be listed: the caller is a shell, which has no use for errors.
func DeviceNames() (names []string) {
	list, err := verbs.Devices()
	if err != nil {
		return nil
	}
	for _, d := range list {
		names = append(names, d.Name)
	}
	return names
}

// must panics at errors that only a mistake in the program makes.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
