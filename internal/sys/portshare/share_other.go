// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package portshare

import "errors"

// canShare is false where the kernel does not steer by destination queue pair.
const canShare = false

func join(string, Options) (Member, error) { return nil, errors.ErrUnsupported }
