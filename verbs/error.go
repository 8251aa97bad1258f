// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"verbena/internal/device"
)

// Error is a refused call: which argument, why, and the errno that rdma-core
// returns for it.
type Error = device.Error
