// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package device

// kinds are those that this system has, in the order of the list of devices.
var kinds = []Kind{KindRoCE, KindTRP}

// systemCaps are capabilities of all devices that come from the system.
const systemCaps = 0
