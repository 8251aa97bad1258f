// SPDX-License-Identifier: BSD-2-Clause

package device

// kinds are those that this system has, in the order of the list of devices.
var kinds = []Kind{KindRoCE, KindIWARP, KindTRP, KindNTB}
