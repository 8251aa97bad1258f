// SPDX-License-Identifier: BSD-2-Clause

package device

import "verbena/ib"

// kinds are those that this system has, in the order of the list of devices.
var kinds = []Kind{KindRoCE, KindIWARP, KindTRP, KindNTB}

// systemCaps are capabilities of all devices that come from the system: netlink reports the state
// of interfaces.
const systemCaps = ib.CapPortActiveEvent
