// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package xdp

import (
	"errors"
	"net"

	"verbena/internal/sys/portshare"
)

// Attach fails: there is no XDP here.
func Attach(*net.Interface, int) (portshare.Steering, error) { return nil, errors.ErrUnsupported }
