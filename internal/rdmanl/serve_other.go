// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package rdmanl

import "errors"

// Serve fails: NETLINK_RDMA is Linux's.
func Serve(int, string) error { return errors.ErrUnsupported }
