// SPDX-License-Identifier: BSD-2-Clause

package ib

import "fmt"

// WCStatus is the outcome of a work request: ibv_wc_status.
//
// Spec: IBTA vol. 1, 11.6.2 Completion return status.
type WCStatus uint8

// Completion statuses.
const (
	WCSuccess    WCStatus = iota
	WCLocLenErr           // a message is longer than its receive, or than the device allows
	WCLocQPOpErr          // the queue pair cannot carry out the request
	WCLocEECOpErr
	WCLocProtErr // the key, rights or bounds of an SGE are wrong
	// the queue pair was in the state ERR; the request may or may not have been carried out
	WCWRFlushErr
	WCMWBindErr  // a memory window cannot be bound so
	WCBadRespErr // the response was not the expected one
	WCLocAccessErr
	WCRemInvReqErr   // the peer found the request invalid, such as longer than its receive
	WCRemAccessErr   // the peer refused an rkey, its rights or its bounds
	WCRemOpErr       // the peer could not complete the request
	WCRetryExcErr    // the peer did not answer, within the retries of the queue pair
	WCRNRRetryExcErr // the peer had no receive, within the retries of the queue pair
	WCLocRDDViolErr
	WCRemInvRDReqErr
	WCRemAbortErr
	WCInvEECNErr
	WCInvEECStateErr
	WCFatalErr
	WCRespTimeoutErr
	WCGeneralErr
	WCTMErr
	WCTMRndvIncomplete
)

var wcStatusNames = [...]string{
	"success", "local length error", "local QP operation error", "local EE context operation error",
	"local protection error", "Work Request Flushed Error", "memory bind operation error",
	"bad response error", "local access error", "remote invalid request error",
	"remote access error", "remote operation error", "transport retry counter exceeded",
	"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request",
	"aborted error", "invalid EE context number", "invalid EE context state", "fatal error",
	"response timeout error", "general error", "TM error", "TM software rendezvous",
}

// String returns the words of ibv_wc_status_str(3).
func (s WCStatus) String() string {
	if int(s) < len(wcStatusNames) {
		return wcStatusNames[s]
	}
	return "unknown"
}

// WCOpcode is the operation that completed: ibv_wc_opcode.
type WCOpcode uint8

// Completion opcodes.
const (
	WCSend            WCOpcode = 0
	WCRDMAWrite       WCOpcode = 1
	WCRDMARead        WCOpcode = 2
	WCCompSwap        WCOpcode = 3
	WCFetchAdd        WCOpcode = 4
	WCBindMW          WCOpcode = 5
	WCLocalInv        WCOpcode = 6
	WCTSO             WCOpcode = 7
	WCFlush           WCOpcode = 8
	WCAtomicWrite     WCOpcode = 9
	WCRegMR           WCOpcode = 64
	WCRecv            WCOpcode = 128
	WCRecvRDMAWithImm WCOpcode = 129
	WCTMAdd           WCOpcode = 130
	WCTMDel           WCOpcode = 131
	WCTMSync          WCOpcode = 132
	WCTMRecv          WCOpcode = 133 // a message with a tag, whether it matched or not
	WCTMNoTag         WCOpcode = 134
)

var wcNames = [...]string{
	WCSend: "SEND", WCRDMAWrite: "RDMA_WRITE", WCRDMARead: "RDMA_READ", WCCompSwap: "COMP_SWAP",
	WCFetchAdd: "FETCH_ADD", WCBindMW: "BIND_MW", WCLocalInv: "LOCAL_INV", WCTSO: "TSO",
	WCFlush: "FLUSH", WCAtomicWrite: "ATOMIC_WRITE", WCRegMR: "REG_MR", WCRecv: "RECV",
	WCRecvRDMAWithImm: "RECV_RDMA_WITH_IMM", WCTMAdd: "TM_ADD", WCTMDel: "TM_DEL",
	WCTMSync: "TM_SYNC", WCTMRecv: "TM_RECV", WCTMNoTag: "TM_NO_TAG",
}

func (o WCOpcode) String() string {
	if int(o) < len(wcNames) && wcNames[o] != "" {
		return wcNames[o]
	}
	return "unknown"
}

// WCOf returns the completion opcode of a send operation.
func WCOf(o WROpcode) WCOpcode {
	switch o {
	case WRRDMAWrite, WRRDMAWriteWithImm:
		return WCRDMAWrite
	case WRRDMARead:
		return WCRDMARead
	case WRAtomicCmpAndSwp:
		return WCCompSwap
	case WRAtomicFetchAndAdd:
		return WCFetchAdd
	case WRBindMW:
		return WCBindMW
	case WRLocalInv:
		return WCLocalInv
	case WRFlush:
		return WCFlush
	case WRAtomicWrite:
		return WCAtomicWrite
	case WRRegMR:
		return WCRegMR
	}
	return WCSend
}

// WCFlags mark the optional fields of a completion that are valid: ibv_wc_flags.
type WCFlags uint8

// Completion flags.
const (
	WCGRH     WCFlags = 1 << 0 // the first 40 bytes of the receive buffer are the GRH
	WCWithImm WCFlags = 1 << 1 // ImmData is valid
	WCWithInv WCFlags = 1 << 3 // InvalidatedRKey is valid
	// the application is to say how many unexpected messages it has handled
	WCTMSyncReq   WCFlags = 1 << 4
	WCTMMatch     WCFlags = 1 << 5 // a tagged receive was found for the message
	WCTMDataValid WCFlags = 1 << 6 // all of the message's data is there
)

// WC is a work completion. After an error only WRID, Status, QPN and VendorErr are valid.
type WC struct {
	WRID            uint64
	Status          WCStatus
	Opcode          WCOpcode
	Flags           WCFlags
	VendorErr       VendorErr
	ByteLen         uint32 // of a receive, READ or atomic
	ImmData         uint32 // as a number; on the wire big-endian
	InvalidatedRKey RKey
	QPN             QPN // the local queue pair
	SrcQP           QPN // UD: the sender's queue pair
	PKeyIndex       uint16
	SLID            uint16
	SL              uint8
	TagHigh         uint32 // of a tag; read TMInfo or FlowTag
}

// Err returns nil on success, else an error that names status and vendor code.
func (w *WC) Err() error {
	if w.Status == WCSuccess {
		return nil
	}
	return &WCError{Status: w.Status, VendorErr: w.VendorErr, WRID: w.WRID, QPN: w.QPN}
}

// WCError is a failed completion as an error.
type WCError struct {
	Status    WCStatus
	VendorErr VendorErr
	WRID      uint64
	QPN       QPN
}

func (e *WCError) Error() string {
	return fmt.Sprintf("work request %d of QP %v: %v (%v)", e.WRID, e.QPN, e.Status, e.VendorErr)
}

// VendorErr refines a completion status with the cause that this implementation found.
type VendorErr uint16

// Vendor error codes.
const (
	VendorNone       VendorErr = iota
	VendorKey                  // no such key, or the key was invalidated
	VendorPD                   // the key belongs to another protection domain
	VendorAccess               // the key does not grant the access
	VendorBounds               // outside the region
	VendorQPState              // flushed: the queue pair was in the error state
	VendorTimeout              // no acknowledgement within retry_cnt time-outs
	VendorSequence             // NAK PSN sequence error, retries used up
	VendorRNR                  // receiver not ready, rnr_retry used up
	VendorNAKInvalid           // the peer answered NAK invalid request
	VendorNAKAccess            // the peer answered NAK remote access error
	VendorNAKOp                // the peer answered NAK remote operational error
	// message longer than the receive buffer or not of the length announced
	VendorLength
	VendorOpcode   // response or operation not expected in this state
	VendorAlign    // atomic target not 8-byte aligned
	VendorDepth    // more READs or atomics than the responder agreed to
	VendorMTU      // longer than one datagram may be
	VendorBound    // invalid memory window or bind
	VendorFault    // the memory is not mapped any more
	VendorPeerGone // the peer's process, on this host, has ended
	VendorSilent   // the peer's process, on this host, lives, and its queue pair does not answer
)

var vendorNames = [...]string{
	"no detail", "invalid key", "wrong protection domain", "access not granted", "out of bounds",
	"queue pair in error state", "acknowledge time-out", "PSN sequence error", "receiver not ready",
	"NAK invalid request", "NAK remote access error", "NAK remote operational error",
	"wrong length", "unexpected opcode", "misaligned atomic",
	"too many outstanding READs or atomics", "longer than the path MTU", "invalid memory window",
	"memory not mapped any more", "the peer's process has ended",
	"the peer's queue pair does not answer",
}

func (v VendorErr) String() string {
	if int(v) < len(vendorNames) {
		return vendorNames[v]
	}
	return fmt.Sprintf("vendor error %d", uint16(v))
}

// WCTime has the time at which a completion was put into its queue. Device is by the device's
// clock, whose frequency is DeviceAttr.HCACoreClock. Wallclock is in nanoseconds since 1970.
type WCTime struct {
	Device    uint64
	Wallclock uint64
}
