// SPDX-License-Identifier: BSD-2-Clause

//go:build linux

package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Kind is the kernel of a guest; its value is the name that ../kernel/build
// knows it by.
type Kind string

const (
	UML    Kind = "uml"    // User-Mode Linux 6.12
	Debian Kind = "debian" // the kernel of the Debian release in use, in QEMU
)

// build returns the folder of the kernel, after building it if the cache does
// not have it. That wants the network, which there is none of inside.
func (k Kind) build() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	cmd := exec.Command(filepath.Join(filepath.Dir(here), "../kernel/build"), string(k))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kernel of kind %s: %w", k, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// env is the variable that tells the test process inside the kernel's folder.
func (k Kind) env() string { return "VERBENA_GUEST_KERNEL_" + string(k) }

// kernel returns the kernel's folder; Main was given the kind.
func (k Kind) kernel() string { return os.Getenv(k.env()) }
