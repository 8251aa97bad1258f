// SPDX-License-Identifier: BSD-2-Clause

package ib

// QPType is the transport service of a queue pair: ibv_qp_type.
type QPType uint8

// Transport services.
const (
	QPTypeRC QPType = 2 // reliable connected
	QPTypeUC QPType = 3 // unreliable connected
	QPTypeUD QPType = 4 // unreliable datagram

	QPTypeRawPacket QPType = 8 // whole Ethernet frames

	QPTypeXRCSend QPType = 9  // extended reliable connected: the initiator, with a send queue only
	QPTypeXRCRecv QPType = 10 // … and its target, with no queue at all
)

func (t QPType) String() string {
	switch t {
	case QPTypeRC:
		return "RC"
	case QPTypeUC:
		return "UC"
	case QPTypeUD:
		return "UD"
	case QPTypeRawPacket:
		return "RAW_PACKET"
	case QPTypeXRCSend:
		return "XRC_SEND"
	case QPTypeXRCRecv:
		return "XRC_RECV"
	}
	return "unknown"
}

// QPState is the state of a queue pair: ibv_qp_state.
//
// Spec: IBTA vol. 1, 10.3.1 and figure 124.
type QPState uint8

// Queue pair states.
const (
	QPReset QPState = iota // just created; no work may be posted
	QPInit                 // receives may be posted, nothing moves
	QPRTR                  // ready to receive: the responder works
	QPRTS                  // ready to send: requester and responder work
	QPSQD                  // send queue drained: no new sends start
	QPSQE                  // UC and UD: a send failed, receives go on
	QPErr                  // everything posted is flushed
)

var qpStateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

func (s QPState) String() string {
	if int(s) < len(qpStateNames) {
		return qpStateNames[s]
	}
	return "unknown"
}

// MigState is the path migration state: ibv_mig_state. QP.Modify takes MigRearm, and MigMigrated to
// change to the alternate path now.
type MigState uint8

// Path migration states.
const (
	MigMigrated MigState = iota // no path to change to
	MigRearm                    // armed as soon as the peer is in MigRearm, too
	MigArmed                    // the alternate path is used if the path fails, or the peer does
)

var migStateNames = [...]string{"MIGRATED", "REARM", "ARMED"}

func (s MigState) String() string {
	if int(s) < len(migStateNames) {
		return migStateNames[s]
	}
	return "unknown"
}

// QPCap are the sizes of a queue pair's queues.
type QPCap struct {
	MaxSendWR     uint32
	MaxRecvWR     uint32
	MaxSendSGE    uint32
	MaxRecvSGE    uint32
	MaxInlineData uint32
}

// QPAttrMask selects fields of QPAttr: ibv_qp_attr_mask.
type QPAttrMask uint32

// Attribute mask bits.
const (
	QPStateAttr        QPAttrMask = 1 << 0
	QPCurState         QPAttrMask = 1 << 1
	QPEnSQDAsyncNotify QPAttrMask = 1 << 2
	QPAccessFlags      QPAttrMask = 1 << 3
	QPPKeyIndex        QPAttrMask = 1 << 4
	QPPort             QPAttrMask = 1 << 5
	QPQKey             QPAttrMask = 1 << 6
	QPAV               QPAttrMask = 1 << 7
	QPPathMTU          QPAttrMask = 1 << 8
	QPTimeout          QPAttrMask = 1 << 9
	QPRetryCnt         QPAttrMask = 1 << 10
	QPRNRRetry         QPAttrMask = 1 << 11
	QPRQPSN            QPAttrMask = 1 << 12
	QPMaxQPRdAtomic    QPAttrMask = 1 << 13
	QPAltPath          QPAttrMask = 1 << 14
	QPMinRNRTimer      QPAttrMask = 1 << 15
	QPSQPSN            QPAttrMask = 1 << 16
	QPMaxDestRdAtomic  QPAttrMask = 1 << 17
	QPPathMigState     QPAttrMask = 1 << 18
	QPCapAttr          QPAttrMask = 1 << 19
	QPDestQPN          QPAttrMask = 1 << 20
	QPRateLimit        QPAttrMask = 1 << 25
)

// ECE has the options of enhanced connection establishment, which two devices of one vendor may
// agree on: ibv_ece. A VendorID of 0, the vendor's OUI of 24 bits, is none.
type ECE struct {
	VendorID uint32
	Options  uint32
}

// QPAttr has the attributes that QP.Modify sets and QP.Query returns: ibv_qp_attr.
type QPAttr struct {
	State            QPState
	CurState         QPState
	PathMTU          MTU
	PathMigState     MigState
	QKey             QKey
	RQPSN            PSN
	SQPSN            PSN
	DestQPN          QPN
	AccessFlags      Access
	Cap              QPCap
	AH               AHAttr
	AltAH            AHAttr
	PKeyIndex        uint16
	AltPKeyIndex     uint16
	EnSQDAsyncNotify bool
	SQDraining       bool
	MaxRdAtomic      uint8 // READs and atomics outstanding as initiator
	MaxDestRdAtomic  uint8 // … as responder
	MinRNRTimer      uint8 // code of the RNR timer table, 0 to 31
	PortNum          uint8
	Timeout          uint8 // local ACK time-out: 4.096 µs × 2^Timeout, 0 is none
	RetryCnt         uint8 // 0 to 7
	RNRRetry         uint8 // 0 to 6; 7 is for ever
	AltPortNum       uint8
	AltTimeout       uint8
	// RateLimit bounds how fast the queue pair sends, in kbit/s: ibv_modify_qp_rate_limit(3). 0 is
	// no limit. RateBurst bounds the bytes of a burst of packets of RatePacket bytes. 0 leaves
	// either to the device.
	RateLimit  uint32
	RateBurst  uint32
	RatePacket uint16
}

// SRQAttr are the attributes of a shared receive queue.
type SRQAttr struct {
	MaxWR    uint32
	MaxSGE   uint32
	SRQLimit uint32 // an SRQ_LIMIT_REACHED event when fewer WRs than this remain; 0 is off
}

// SRQAttrMask selects fields of SRQAttr: ibv_srq_attr_mask.
type SRQAttrMask uint8

// SRQ attribute mask bits.
const (
	SRQMaxWR SRQAttrMask = 1 << 0
	SRQLimit SRQAttrMask = 1 << 1
)
