// SPDX-License-Identifier: BSD-2-Clause

package pingpong

import "verbena/ib"

// kind is one of the four programs.
type kind struct {
	name     string
	program  string // of rdma-core
	about    string
	qpType   ib.QPType
	size     int // default message size
	pathMTU  bool
	shared   bool // one receive queue for several queue pairs
	reliable bool
}

var kinds = []kind{
	{name: "rc", program: "ibv_rc_pingpong", about: "over a reliable connection",
		qpType: ib.QPTypeRC, size: 4096, pathMTU: true, reliable: true},
	{name: "uc", program: "ibv_uc_pingpong", about: "over an unreliable connection",
		qpType: ib.QPTypeUC, size: 4096, pathMTU: true},
	{name: "ud", program: "ibv_ud_pingpong", about: "by datagrams", qpType: ib.QPTypeUD,
		size: 1024},
	{name: "srq", program: "ibv_srq_pingpong",
		about: "over reliable connections that share a receive queue", qpType: ib.QPTypeRC,
		size: 4096, pathMTU: true, shared: true, reliable: true},
}
