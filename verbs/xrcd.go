// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"os"

	"verbena/ib"
	"verbena/internal/core"
)

// XRCD is an XRC domain: XRC_RECV queue pairs of a domain deliver to its XRC
// shared receive queues, whatever protection domain those are of. ibv_xrcd.
type XRCD core.XRCD

// OpenXRCD opens an XRC domain: ibv_open_xrcd(3). A domain opened with the same
// file (the same inode) through any context of the device is the same domain;
// without a file it is a new one. flag is os.O_CREATE, to make a domain that
// does not exist, alone or with os.O_EXCL, to refuse one that does. The file
// may be closed afterwards.
//
// A domain is this process's: another process that opens it with the same file
// gets one of its own.
//
// Errors: EAGAIN without O_CREATE if there is no such domain; EINVAL with
// O_EXCL if there is; EOPNOTSUPP on devices of other kinds than RoCE.
func (c *Context) OpenXRCD(file *os.File, flag int) (*XRCD, error) {
	v, err := (*core.Context)(c).OpenXRCD(file, flag)
	return (*XRCD)(v), err
}

// Close closes the domain, which goes with the last that has it open:
// ibv_close_xrcd(3). Errors: EBUSY while queue pairs or shared receive queues
// were made through it.
func (x *XRCD) Close() error { return (*core.XRCD)(x).Close() }

// CreateQP creates an XRC_RECV queue pair of the domain in the RESET state:
// ibv_create_qp_ex(3). It has no queues and no protection domain: each request
// names the XRC shared receive queue whose receives, completion queue and
// memory it is for. Of attr only Type is looked at, which may be left 0, and
// attr may be nil. Completions carry the number of this queue pair, and stay
// when it is destroyed.
//
// Errors: ENOMEM if no queue pair number is left.
func (x *XRCD) CreateQP(attr *QPInitAttr) (*QP, error) {
	v, err := (*core.XRCD)(x).CreateQP(attr.core())
	return (*QP)(v), err
}

// OpenQP opens an XRC_RECV queue pair of the domain once more, by its number:
// ibv_open_qp(3). Each QP that stands for it may modify and query it and gets
// its events; it goes when the last of them is destroyed.
//
// Errors: ENOENT if the domain has no such queue pair.
func (x *XRCD) OpenQP(qpn ib.QPN) (*QP, error) {
	v, err := (*core.XRCD)(x).OpenQP(qpn)
	return (*QP)(v), err
}
