// SPDX-License-Identifier: BSD-2-Clause

package ib

// NodeType is the kind of node: ibv_node_type.
type NodeType uint8

// Node types.
const (
	NodeCA   NodeType = 1
	NodeRNIC NodeType = 4
)

// AtomicCap is the scope in which atomic operations are atomic: ibv_atomic_cap.
type AtomicCap uint8

// Atomicity: none, among requests of this device, or with the CPU as well.
const (
	AtomicNone AtomicCap = iota
	AtomicHCA
	AtomicGlob
)

// DeviceCap is a set of device capabilities: ibv_device_cap_flags.
type DeviceCap uint64

// Device capabilities.
const (
	CapBadPKeyCntr         DeviceCap = 1 << 1
	CapBadQKeyCntr         DeviceCap = 1 << 2
	CapAutoPathMig         DeviceCap = 1 << 4
	CapCurrQPStateMod      DeviceCap = 1 << 7
	CapShutdownPort        DeviceCap = 1 << 8
	CapPortActiveEvent     DeviceCap = 1 << 10
	CapSysImageGUID        DeviceCap = 1 << 11
	CapRCRNRNAKGen         DeviceCap = 1 << 12
	CapSRQResize           DeviceCap = 1 << 13
	CapMemWindow           DeviceCap = 1 << 17
	CapXRC                 DeviceCap = 1 << 20
	CapMemMgtExtensions    DeviceCap = 1 << 21
	CapMemWindowType2B     DeviceCap = 1 << 24
	CapManagedFlowSteering DeviceCap = 1 << 29
	CapFlushGlobal         DeviceCap = 1 << 38
	CapFlushPersistent     DeviceCap = 1 << 39
	CapAtomicWrite         DeviceCap = 1 << 40
)

// DeviceAttr are the limits and properties of a device: ibv_device_attr.
type DeviceAttr struct {
	FWVer                 string
	NodeType              NodeType
	NodeGUID              GUID
	SysImageGUID          GUID
	MaxMRSize             uint64
	PageSizeCap           uint64
	VendorID              uint32
	VendorPartID          uint32
	HWVer                 uint32
	MaxQP                 int
	MaxQPWR               int
	DeviceCapFlags        DeviceCap
	MaxSGE                int
	MaxSGERd              int
	MaxInlineData         int
	MaxCQ                 int
	MaxCQE                int
	MaxMR                 int
	MaxPD                 int
	MaxQPRdAtom           int
	MaxEERdAtom           int
	MaxResRdAtom          int
	MaxQPInitRdAtom       int
	MaxEEInitRdAtom       int
	AtomicCap             AtomicCap
	MaxEE                 int
	MaxRDD                int
	MaxMW                 int
	MaxRawIPv6QP          int
	MaxRawEthyQP          int
	MaxMcastGrp           int
	MaxMcastQPAttach      int
	MaxTotalMcastQPAttach int
	MaxAH                 int
	MaxFMR                int
	MaxMapPerFMR          int
	MaxSRQ                int
	MaxSRQWR              int
	MaxSRQSGE             int
	MaxFastRegPages       int
	MaxPKeys              int
	LocalCAAckDelay       uint8
	PhysPortCnt           uint8
	ODPCaps               ODPCaps
	MaxDMSize             uint64 // bytes of device memory that one allocation may have
	HCACoreClock          uint64 // frequency of the clock of WCTime.Device, in kHz
	// CompletionTimestampMask has the bits of the clock that count.
	CompletionTimestampMask uint64
	PacketPacing            PacketPacingCaps
	RSS                     RSSCaps
	MaxWQTypeRQ             int // work queues
	TM                      TMCaps
	CQModeration            CQModerationCaps
}

// CQModerationCaps has the bounds of the moderation of events: ibv_cq_moderation_caps.
type CQModerationCaps struct {
	MaxCount  int // completions per event
	MaxPeriod int // microseconds that an event waits for further completions
}

// PacketPacingCaps has the bounds of QPAttr.RateLimit, in kbit/s, and the queue pairs that have
// such a limit: ibv_packet_pacing_caps.
type PacketPacingCaps struct {
	Min, Max uint32
	Types    QPTypes
}

// QPTypes is a set of types of queue pairs, with the bit 1 << t for each QPType t.
type QPTypes uint32

// ODPCaps says which work requests may name memory of AccessOnDemand: ibv_odp_caps.
type ODPCaps struct {
	General         ODPGeneralCaps
	RC, UC, UD, XRC ODPTransportCaps
}

// ODPGeneralCaps is a set of properties of on-demand paging: ibv_odp_general_caps.
type ODPGeneralCaps uint64

// General capabilities of on-demand paging.
const (
	ODPSupport         ODPGeneralCaps = 1 << 0
	ODPSupportImplicit ODPGeneralCaps = 1 << 1 // C programs only: see verbs.PD.RegMR
)

// ODPTransportCaps is a set of operations of a transport: ibv_odp_transport_cap_bits.
type ODPTransportCaps uint32

// Operations whose memory may be paged on demand.
const (
	ODPSend    ODPTransportCaps = 1 << 0
	ODPRecv    ODPTransportCaps = 1 << 1
	ODPWrite   ODPTransportCaps = 1 << 2
	ODPRead    ODPTransportCaps = 1 << 3
	ODPAtomic  ODPTransportCaps = 1 << 4
	ODPSRQRecv ODPTransportCaps = 1 << 5
	ODPFlush   ODPTransportCaps = 1 << 6
	// ODPAtomicWrite is of ATOMIC WRITE, which ODPAtomic does not include.
	ODPAtomicWrite ODPTransportCaps = 1 << 7
)

// PortState is the state of a port: ibv_port_state.
type PortState uint8

// Port states.
const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
	PortActiveDefer
)

var portStateNames = [...]string{"PORT_NOP", "PORT_DOWN", "PORT_INIT", "PORT_ARMED", "PORT_ACTIVE",
	"PORT_ACTIVE_DEFER"}

func (s PortState) String() string {
	if int(s) < len(portStateNames) {
		return portStateNames[s]
	}
	return "invalid state"
}

// LinkLayer is the link layer of a port.
type LinkLayer uint8

// Link layers.
const (
	LinkUnspecified LinkLayer = iota
	LinkInfiniBand
	LinkEthernet
)

func (l LinkLayer) String() string {
	switch l {
	case LinkInfiniBand:
		return "InfiniBand"
	case LinkEthernet:
		return "Ethernet"
	}
	return "Unspecified"
}

// PortAttr are the properties of a port: ibv_port_attr.
type PortAttr struct {
	State         PortState
	MaxMTU        MTU
	ActiveMTU     MTU
	GIDTblLen     int
	PortCapFlags  uint32
	MaxMsgSz      uint32
	BadPKeyCntr   uint32
	QKeyViolCntr  uint32
	PKeyTblLen    uint16
	LID           uint16
	SMLID         uint16
	LMC           uint8
	MaxVLNum      uint8
	SMSL          uint8
	SubnetTimeout uint8
	InitTypeReply uint8
	ActiveWidth   uint8
	ActiveSpeed   uint16
	PhysState     uint8
	LinkLayer     LinkLayer
}

// GIDEntry is a row of a port's GID table.
type GIDEntry struct {
	Index int
	GID   GID
	Type  GIDType
	// NetDev is the network interface the address belongs to.
	NetDev string
}
