// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"context"
	"runtime/trace"

	"verbena/ib"
	"verbena/internal/core"
)

// SendWR is a send work request: ibv_send_wr. Fields that its opcode does not use are ignored.
type SendWR struct {
	ID     uint64 // returned in the completion
	Opcode ib.WROpcode
	Flags  ib.SendFlags

	// SGList is the local memory. It is the source of a SEND or WRITE, and the target of a READ. An
	// atomic operation has 8 bytes for its result, ATOMIC_WRITE the 8 bytes that it writes. With
	// another length, or a word that is not aligned, the work request fails.
	SGList []ib.SGE
	// Inline, with SendInline, is the data itself. PostSend copies it, so it needs no region and
	// may be reused at once.
	Inline []byte

	ImmData        uint32  // with immediate: as a number
	InvalidateRKey ib.RKey // SEND_WITH_INV, LOCAL_INV

	RemoteAddr uint64 // RDMA, atomics, FLUSH
	RKey       ib.RKey

	CompareAdd uint64 // CMP_AND_SWP: compare; FETCH_AND_ADD: add
	Swap       uint64

	FlushType   ib.FlushType
	FlushLevel  ib.FlushLevel
	FlushLength uint32 // bytes, with FlushRange

	AH         *AH // UD
	RemoteQPN  ib.QPN
	RemoteQKey ib.QKey

	RemoteSRQN ib.SRQN // XRC_SEND: the number of the peer's shared receive queue

	Bind *BindWR // BIND_MW of a type 2 window
	Reg  *RegWR  // REG_MR
}

// BindWR binds a memory window to a part of a region: ibv_mw_bind. Length 0 revokes the rights
// of a type 1 window.
type BindWR struct {
	ID     uint64       // BindMW only
	Flags  ib.SendFlags // BindMW only
	MW     *MW
	MR     *MR
	Addr   uint64
	Length uint64
	Access ib.Access
	RKey   ib.RKey // type 2: its low 8 bits are the new key's, whose upper 24 are the window's
}

// RegWR registers the memory that MR.Map gave a region: ib_reg_wr.
type RegWR struct {
	MR     *MR
	Key    ib.RKey // its upper 24 bits are the region's
	Access ib.Access
}

// RecvWR is a receive work request: ibv_recv_wr.
type RecvWR struct {
	ID     uint64
	SGList []ib.SGE
}

// PostSend posts send work requests in order: ibv_post_send(3). It returns the number of
// requests posted. With an error, that is also the index of the refused request; those before it
// are posted. PostSend does not allocate and does not wait for the peer.
//
// Errors: EINVAL names the field; ENOMEM if the send queue is full.
func (q *QP) PostSend(wrs ...SendWR) (posted int, err error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(context.Background(), "verbs.QP.PostSend").End()
	}
	return (*core.QP)(q).PostSend(coreSends(wrs))
}

// BindMW binds a type 1 window: ibv_bind_mw(3). MW.RKey returns the window's new key once the
// bind has completed.
func (q *QP) BindMW(mw *MW, b BindWR) error {
	return (*core.QP)(q).BindMW((*core.MW)(mw), *coreBind(&b))
}

// PostRecv posts receive work requests in order: ibv_post_recv(3). It returns the number posted,
// as PostSend does. A UD receive needs 40 bytes more than the message, for the GRH.
//
// Errors: EINVAL in the state RESET, or with an SRQ, or it names the field; ENOMEM if the
// receive queue is full.
func (q *QP) PostRecv(wrs ...RecvWR) (posted int, err error) {
	if trace.IsEnabled() {
		defer trace.StartRegion(context.Background(), "verbs.QP.PostRecv").End()
	}
	return (*core.QP)(q).PostRecv(coreRecvs(wrs))
}
