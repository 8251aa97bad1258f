// SPDX-License-Identifier: BSD-2-Clause

// Package devinfo prints the devices of this machine in the layouts of ibv_devices and ibv_devinfo
// of rdma-core 44. So scripts that read those read these.
//
// Print functions take values and a writer; the commands fetch the values.
package devinfo
