// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package run

import (
	"errors"
	"os"
)

func start(*options, []string) error {
	return errors.New("'verbena run' needs Linux: the libraries are for glibc")
}

func unprivileged(*os.File, string) error { return nil }
