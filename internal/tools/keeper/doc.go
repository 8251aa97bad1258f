// SPDX-License-Identifier: BSD-2-Clause

// Package keeper is "verbena keeper", which users do not call: processes that share
// UDP port 4791 start it. See package portshare.
package keeper
