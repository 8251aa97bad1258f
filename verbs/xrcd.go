// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"os"

	"verbena/ib"
	"verbena/internal/core"
)

// XRCD is an XRC domain: ibv_xrcd. Its XRC_RECV queue pairs deliver to its XRC shared receive
// queues, which may belong to any protection domain.
type XRCD core.XRCD

// OpenXRCD opens an XRC domain: ibv_open_xrcd(3). Without a file it makes a new domain. All
// calls with the same file (the same inode), through any context of the device, open the same
// domain. flag is os.O_CREATE, to make the domain if it does not exist. With os.O_EXCL as well
// it refuses a domain that exists. The file may be closed afterwards.
//
// Processes of one user share a domain that they open with the same file: a queue pair of one
// delivers to the shared receive queues of all, and reads and writes the memory of their processes.
// With captures, faults or WithoutLocalPath, and on other systems than Linux, each process has a
// domain of its own.
//
// Errors: EAGAIN without O_CREATE if there is no such domain; EINVAL with O_EXCL if there is;
// EOPNOTSUPP on devices of other kinds than RoCE.
func (c *Context) OpenXRCD(file *os.File, flag int) (*XRCD, error) {
	v, err := (*core.Context)(c).OpenXRCD(file, flag)
	return (*XRCD)(v), err
}

// Close closes the domain: ibv_close_xrcd(3). The last Close of a domain removes it. Errors:
// EBUSY while queue pairs or shared receive queues exist that were made through it.
func (x *XRCD) Close() error { return (*core.XRCD)(x).Close() }

// CreateQP creates an XRC_RECV queue pair of the domain in the state RESET: ibv_create_qp_ex(3).
// It has no queues and no protection domain. Each request names an XRC shared receive queue, and
// uses the receives, completion queue and memory of that queue. Completions carry the number of
// this queue pair, and stay when it is destroyed.
//
// attr may be nil. Only its Type is checked, which may be 0.
//
// Errors: ENOMEM if no queue pair number is left.
func (x *XRCD) CreateQP(attr *QPInitAttr) (*QP, error) {
	v, err := (*core.XRCD)(x).CreateQP(attr.core())
	return (*QP)(v), err
}

// OpenQP opens an XRC_RECV queue pair of the domain by its number: ibv_open_qp(3). Each QP from
// CreateQP and OpenQP may modify and query the queue pair, and gets its events. The queue pair
// is removed when the last of them is destroyed.
//
// A queue pair of another process runs there. It ends when that process closes the domain or ends:
// the event is then ib.EventQPFatal, the state ib.QPErr, and Modify fails with EIO. Modify, Query
// and State wait for that process if it is stopped.
//
// Errors: ENOENT if the domain has no such queue pair.
func (x *XRCD) OpenQP(qpn ib.QPN) (*QP, error) {
	v, err := (*core.XRCD)(x).OpenQP(qpn)
	return (*QP)(v), err
}
