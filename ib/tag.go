// SPDX-License-Identifier: BSD-2-Clause

package ib

// TagOp is an operation on the tag list of a shared receive queue: ibv_ops_wr_opcode.
type TagOp uint8

// Operations on tag lists.
const (
	TagAdd  TagOp = iota // adds a tagged receive
	TagDel               // removes one
	TagSync              // says only how many unexpected messages were handled
)

// TagFlags modify an operation on a tag list: ibv_ops_flags.
type TagFlags uint8

// Flags of operations on tag lists.
const (
	TagSignaled   TagFlags = 1 << 0 // a completion reports also success
	TagUnexpected TagFlags = 1 << 1 // UnexpectedCnt is valid: IBV_OPS_TM_SYNC
)

// TagWR is an operation on the tag list of a shared receive queue: ibv_ops_wr.
type TagWR struct {
	ID     uint64
	Opcode TagOp
	Flags  TagFlags
	// UnexpectedCnt is the number of unexpected messages that the application has handled, since
	// the queue was created. It wraps.
	UnexpectedCnt uint32
	Handle        uint32 // of the tagged receive: a result of TagAdd, an argument of TagDel

	// TagAdd
	RecvID uint64 // the ID of the receive's completions
	SGList []SGE
	Tag    uint64
	Mask   uint64 // a message matches if its tag & Mask == Tag
}

// TMInfo has the tag of the message that a WCTMRecv with WCTMMatch completes, and the sender's
// data: ibv_wc_tm_info.
type TMInfo struct {
	Tag  uint64
	Priv uint32
}

// TMInfo returns the tag of a completion; zero but for one with WCTMMatch.
func (w *WC) TMInfo() TMInfo {
	if w.Opcode != WCTMRecv || w.Flags&WCTMMatch == 0 {
		return TMInfo{}
	}
	return TMInfo{Tag: uint64(w.TagHigh)<<32 | uint64(w.SrcQP),
		Priv: uint32(w.PKeyIndex)<<16 | uint32(w.SLID)}
}

// SetTMInfo sets what TMInfo returns, in the place of fields of datagrams: SrcQP, PKeyIndex and
// SLID.
func (w *WC) SetTMInfo(i TMInfo) {
	w.TagHigh, w.SrcQP = uint32(i.Tag>>32), QPN(i.Tag)
	w.PKeyIndex, w.SLID = uint16(i.Priv>>16), uint16(i.Priv)
}

// TMCapFlags are capabilities of shared receive queues that match tags: ibv_tm_cap_flags.
type TMCapFlags uint32

// TMCapRC says that RC queue pairs match tags, and READ the data of rendezvous.
const TMCapRC TMCapFlags = 1 << 0

// TMCaps are the limits of shared receive queues that match tags: ibv_tm_caps.
type TMCaps struct {
	MaxRndvHdrSize int // bytes of the message that announces a rendezvous
	MaxNumTags     int // tagged receives of one queue
	Flags          TMCapFlags
	MaxOps         int // operations that may be posted at once
	MaxSGE         int // elements of a tagged receive
}

// TMAttr has the limits of a new queue that matches tags: ibv_tm_cap.
type TMAttr struct {
	MaxNumTags uint32
	MaxOps     uint32
}
