// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/device"
)

// Error is the error of a refused call. It names the argument and the reason, and has the errno
// that rdma-core returns for it.
type Error = device.Error
