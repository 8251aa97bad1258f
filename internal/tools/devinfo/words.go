// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import "verbena/ib"

// flagName is a bit and the word ibv_devinfo prints for it.
type flagName struct {
	bit  uint64
	name string
}

// capFlags are in the order ibv_devinfo prints them.
var capFlags = []flagName{
	{1 << 0, "RESIZE_MAX_WR"},
	{uint64(ib.CapBadPKeyCntr), "BAD_PKEY_CNTR"},
	{uint64(ib.CapBadQKeyCntr), "BAD_QKEY_CNTR"},
	{1 << 3, "RAW_MULTI"},
	{uint64(ib.CapAutoPathMig), "AUTO_PATH_MIG"},
	{1 << 5, "CHANGE_PHY_PORT"},
	{1 << 6, "UD_AV_PORT_ENFORCE"},
	{uint64(ib.CapCurrQPStateMod), "CURR_QP_STATE_MOD"},
	{uint64(ib.CapShutdownPort), "SHUTDOWN_PORT"},
	{1 << 9, "INIT_TYPE"},
	{uint64(ib.CapPortActiveEvent), "PORT_ACTIVE_EVENT"},
	{uint64(ib.CapSysImageGUID), "SYS_IMAGE_GUID"},
	{uint64(ib.CapRCRNRNAKGen), "RC_RNR_NAK_GEN"},
	{uint64(ib.CapSRQResize), "SRQ_RESIZE"},
	{1 << 14, "N_NOTIFY_CQ"},
	{uint64(ib.CapMemWindow), "MEM_WINDOW"},
	{1 << 18, "UD_IP_CSUM"},
	{uint64(ib.CapXRC), "XRC"},
	{uint64(ib.CapMemMgtExtensions), "MEM_MGT_EXTENSIONS"},
	{1 << 23, "MEM_WINDOW_TYPE_2A"},
	{uint64(ib.CapMemWindowType2B), "MEM_WINDOW_TYPE_2B"},
	{1 << 25, "RC_IP_CSUM"},
	{1 << 26, "RAW_IP_CSUM"},
	{1 << 29, "MANAGED_FLOW_STEERING"},
}

// extendedCapFlags are the names above bit 31 that rdma-core 44 knows; it
// prints the others (FLUSH, ATOMIC_WRITE) as unknown.
var extendedCapFlags = []flagName{
	{1 << 34, "RAW_SCATTER_FCS"},
	{1 << 36, "PCI_WRITE_END_PADDING"},
}

var atomicCaps = map[ib.AtomicCap]string{
	ib.AtomicNone: "ATOMIC_NONE",
	ib.AtomicHCA:  "ATOMIC_HCA",
	ib.AtomicGlob: "ATOMIC_GLOB",
}

var physStates = map[uint8]string{
	1: "SLEEP", 2: "POLLING", 3: "DISABLED", 4: "PORT_CONFIGURATION TRAINNING",
	5: "LINK_UP", 6: "LINK_ERROR_RECOVERY", 7: "PHY TEST",
}

var linkWidths = map[uint8]string{1: "1", 2: "4", 4: "8", 8: "12", 16: "2"}

var linkSpeeds = map[uint16]string{
	1: "2.5 Gbps", 2: "5.0 Gbps", 4: "10.0 Gbps", 8: "10.0 Gbps", 16: "14.0 Gbps",
	32: "25.0 Gbps", 64: "50.0 Gbps", 128: "100.0 Gbps",
}

var virtualLanes = map[uint8]string{1: "1", 2: "2", 3: "4", 4: "8", 5: "15"}

// word looks a value up, with the text ibv_devinfo has for values it does not
// know.
func word[K comparable](m map[K]string, k K, unknown string) string {
	if s, ok := m[k]; ok {
		return s
	}
	return unknown
}

func portState(s ib.PortState) string {
	switch s {
	case ib.PortDown, ib.PortInit, ib.PortArmed, ib.PortActive:
		return s.String()
	}
	return "invalid state"
}

func mtu(m ib.MTU) string {
	if !m.Valid() {
		return "invalid MTU"
	}
	return m.String()
}

func gidType(t ib.GIDType) string {
	switch t {
	case ib.GIDTypeIB, ib.GIDTypeRoCEv1:
		return "RoCE v1"
	case ib.GIDTypeRoCEv2:
		return "RoCE v2"
	}
	return "Invalid gid type"
}
