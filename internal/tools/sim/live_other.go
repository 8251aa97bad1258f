// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package sim

import (
	"errors"

	"github.com/spf13/cobra"
)

const insideFlag = "inside"

// live runs a program on the network: not on this system.
func (o *options) live(*cobra.Command, string, []string) error {
	return errors.New("--live needs Linux, for its network namespaces and TAP interfaces")
}
