// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"fmt"
	"io"
	"net/netip"

	"verbena/ib"
)

// Info has the attributes that ibv_devinfo prints of one device.
type Info struct {
	Name        string
	Kind        string
	NetDev      string
	Version     string // of Verbena; empty is not shown
	Attr        ib.DeviceAttr
	CompVectors int // completion vectors
	Ports       []Port
}

// Port is one port of a device.
type Port struct {
	Number int
	Attr   ib.PortAttr
	GIDs   []ib.GIDEntry
}

// Print prints a device as ibv_devinfo does, with every attribute if verbose.
func Print(w io.Writer, d *Info, verbose bool) {
	p := printer{w}
	p.device(d)
	if verbose {
		p.limits(&d.Attr)
		p.extended(&d.Attr)
		p.f("\tnum_comp_vectors:\t\t%d\n", d.CompVectors)
	}
	for i := range d.Ports {
		p.port(&d.Ports[i])
		if verbose {
			p.portDetails(&d.Ports[i], d.Attr.NodeType)
		}
		p.f("\n")
	}
}

type printer struct{ w io.Writer }

func (p printer) f(format string, args ...any) { fmt.Fprintf(p.w, format, args...) }

func (p printer) device(d *Info) {
	a := &d.Attr
	p.f("hca_id:\t%s\n", d.Name)
	transport, code := transportOf(a.NodeType)
	p.f("\ttransport:\t\t\t%s (%d)\n", transport, code)
	if a.FWVer != "" {
		p.f("\tfw_ver:\t\t\t\t%s\n", a.FWVer)
	}
	if d.Version != "" {
		p.f("\tverbena:\t\t\t%s\n", d.Version)
	}
	p.f("\tnode_guid:\t\t\t%s\n", a.NodeGUID)
	p.f("\tsys_image_guid:\t\t\t%s\n", a.SysImageGUID)
	p.f("\tvendor_id:\t\t\t0x%04x\n", a.VendorID)
	p.f("\tvendor_part_id:\t\t\t%d\n", a.VendorPartID)
	p.f("\thw_ver:\t\t\t\t0x%X\n", a.HWVer)
	p.f("\tphys_port_cnt:\t\t\t%d\n", a.PhysPortCnt)
}

// transportOf returns the word and the number of a node's transport.
func transportOf(node ib.NodeType) (string, int) {
	if node == ib.NodeRNIC {
		return "iWARP", 1
	}
	return "InfiniBand", 0
}

func (p printer) limits(a *ib.DeviceAttr) {
	p.f("\tmax_mr_size:\t\t\t0x%x\n", a.MaxMRSize)
	p.f("\tpage_size_cap:\t\t\t0x%x\n", a.PageSizeCap)
	p.f("\tmax_qp:\t\t\t\t%d\n", a.MaxQP)
	p.f("\tmax_qp_wr:\t\t\t%d\n", a.MaxQPWR)
	p.f("\tdevice_cap_flags:\t\t0x%08x\n", uint32(a.DeviceCapFlags))
	p.flags(uint64(uint32(a.DeviceCapFlags)), capFlags)
	p.f("\tmax_sge:\t\t\t%d\n", a.MaxSGE)
	p.f("\tmax_sge_rd:\t\t\t%d\n", a.MaxSGERd)
	p.f("\tmax_cq:\t\t\t\t%d\n", a.MaxCQ)
	p.f("\tmax_cqe:\t\t\t%d\n", a.MaxCQE)
	p.f("\tmax_mr:\t\t\t\t%d\n", a.MaxMR)
	p.f("\tmax_pd:\t\t\t\t%d\n", a.MaxPD)
	p.f("\tmax_qp_rd_atom:\t\t\t%d\n", a.MaxQPRdAtom)
	p.f("\tmax_ee_rd_atom:\t\t\t%d\n", a.MaxEERdAtom)
	p.f("\tmax_res_rd_atom:\t\t%d\n", a.MaxResRdAtom)
	p.f("\tmax_qp_init_rd_atom:\t\t%d\n", a.MaxQPInitRdAtom)
	p.f("\tmax_ee_init_rd_atom:\t\t%d\n", a.MaxEEInitRdAtom)
	p.f("\tatomic_cap:\t\t\t%s (%d)\n", word(atomicCaps, a.AtomicCap, "invalid atomic capability"),
		a.AtomicCap)
	p.f("\tmax_ee:\t\t\t\t%d\n", a.MaxEE)
	p.f("\tmax_rdd:\t\t\t%d\n", a.MaxRDD)
	p.f("\tmax_mw:\t\t\t\t%d\n", a.MaxMW)
	p.f("\tmax_raw_ipv6_qp:\t\t%d\n", a.MaxRawIPv6QP)
	p.f("\tmax_raw_ethy_qp:\t\t%d\n", a.MaxRawEthyQP)
	p.f("\tmax_mcast_grp:\t\t\t%d\n", a.MaxMcastGrp)
	p.f("\tmax_mcast_qp_attach:\t\t%d\n", a.MaxMcastQPAttach)
	p.f("\tmax_total_mcast_qp_attach:\t%d\n", a.MaxTotalMcastQPAttach)
	p.f("\tmax_ah:\t\t\t\t%d\n", a.MaxAH)
	p.f("\tmax_fmr:\t\t\t%d\n", a.MaxFMR)
	if a.MaxFMR != 0 {
		p.f("\tmax_map_per_fmr:\t\t%d\n", a.MaxMapPerFMR)
	}
	p.f("\tmax_srq:\t\t\t%d\n", a.MaxSRQ)
	if a.MaxSRQ != 0 {
		p.f("\tmax_srq_wr:\t\t\t%d\n", a.MaxSRQWR)
		p.f("\tmax_srq_sge:\t\t\t%d\n", a.MaxSRQSGE)
	}
	p.f("\tmax_pkeys:\t\t\t%d\n", a.MaxPKeys)
	p.f("\tlocal_ca_ack_delay:\t\t%d\n", a.LocalCAAckDelay)
}

// extended prints the attributes that ibv_query_device_ex(3) adds. A device in software over
// sockets has no offloads.
func (p printer) extended(a *ib.DeviceAttr) {
	p.f("\tgeneral_odp_caps:\n")
	p.odpFlags(uint64(a.ODPCaps.General), "ODP_SUPPORT", "ODP_SUPPORT_IMPLICIT")
	for _, t := range []struct {
		transport string
		caps      ib.ODPTransportCaps
	}{{"rc", a.ODPCaps.RC}, {"uc", a.ODPCaps.UC}, {"ud", a.ODPCaps.UD}, {"xrc", a.ODPCaps.XRC}} {
		p.f("\t%s_odp_caps:\n", t.transport)
		if t.caps == 0 {
			p.odpFlags(1, "NO SUPPORT")
		}
		p.odpFlags(uint64(t.caps), "SUPPORT_SEND", "SUPPORT_RECV", "SUPPORT_WRITE", "SUPPORT_READ",
			"SUPPORT_ATOMIC", "SUPPORT_SRQ", "SUPPORT_FLUSH", "SUPPORT_ATOMIC_WRITE")
	}
	if a.CompletionTimestampMask != 0 {
		p.f("\tcompletion timestamp_mask:\t\t\t0x%016x\n", a.CompletionTimestampMask)
	} else {
		p.f("\tcompletion_timestamp_mask not supported\n")
	}
	if a.HCACoreClock != 0 {
		p.f("\thca_core_clock:\t\t\t%dkHZ\n", a.HCACoreClock)
	} else {
		p.f("\tcore clock not supported\n")
	}
	p.f("\tdevice_cap_flags_ex:\t\t0x%X\n", uint64(a.DeviceCapFlags))
	p.flags(uint64(a.DeviceCapFlags)&^(1<<32-1), extendedCapFlags)
	p.f("\ttso_caps:\n")
	p.f("\t\tmax_tso:\t\t\t0\n")
	p.f("\trss_caps:\n")
	p.f("\t\tmax_rwq_indirection_tables:\t\t\t%d\n", a.RSS.MaxTables)
	p.f("\t\tmax_rwq_indirection_table_size:\t\t\t%d\n", a.RSS.MaxTableSize)
	p.f("\t\trx_hash_function:\t\t\t\t0x%x\n", a.RSS.Function)
	p.f("\t\trx_hash_fields_mask:\t\t\t\t0x%X\n", uint64(a.RSS.Fields))
	if a.RSS.Types != 0 {
		p.f("\t\tsupported_qp:\n")
		p.flags(uint64(a.RSS.Types), []flagName{{1 << ib.QPTypeRawPacket, "SUPPORT_RAW_PACKET"}})
	}
	p.f("\tmax_wq_type_rq:\t\t\t%d\n", a.MaxWQTypeRQ)
	p.f("\tpacket_pacing_caps:\n")
	p.f("\t\tqp_rate_limit_min:\t%dkbps\n", a.PacketPacing.Min)
	p.f("\t\tqp_rate_limit_max:\t%dkbps\n", a.PacketPacing.Max)
	if a.PacketPacing.Max != 0 {
		p.f("\t\tsupported_qp:\n")
		// ibv_devinfo has no name for RC, UC and XRC.
		p.flags(uint64(a.PacketPacing.Types), []flagName{
			{1 << ib.QPTypeRawPacket, "SUPPORT_RAW_PACKET"}, {1 << ib.QPTypeUD, "SUPPORT_UD"}})
	}
	p.tagMatching(&a.TM)
	if m := a.CQModeration; m.MaxCount != 0 {
		p.f("\n\tcq moderation caps:\n")
		p.f("\t\tmax_cq_count:\t%d\n", m.MaxCount)
		p.f("\t\tmax_cq_period:\t%d us\n\n", m.MaxPeriod)
	}
	if a.MaxDMSize != 0 {
		p.f("\tmaximum available device memory:\t%dBytes\n\n", a.MaxDMSize)
	}
}

func (p printer) tagMatching(c *ib.TMCaps) {
	if c.MaxNumTags == 0 {
		p.f("\ttag matching not supported\n")
		return
	}
	p.f("\tmax_rndv_hdr_size:\t\t%d\n", c.MaxRndvHdrSize)
	p.f("\tmax_num_tags:\t\t\t%d\n", c.MaxNumTags)
	p.f("\tmax_ops:\t\t\t%d\n", c.MaxOps)
	p.f("\tmax_sge:\t\t\t%d\n", c.MaxSGE)
	p.f("\tflags:\n")
	if c.Flags&ib.TMCapRC != 0 {
		p.f("\t\t\t\t\tIBV_TM_CAP_RC\n")
	}
}

func (p printer) flags(set uint64, names []flagName) {
	for _, n := range names {
		if set&n.bit != 0 {
			p.f("\t\t\t\t\t%s\n", n.name)
			set &^= n.bit
		}
	}
	if set != 0 {
		p.f("\t\t\t\t\tUnknown flags: 0x%X\n", set)
	}
}

func (p printer) port(port *Port) {
	a := &port.Attr
	p.f("\t\tport:\t%d\n", port.Number)
	p.f("\t\t\tstate:\t\t\t%s (%d)\n", portState(a.State), a.State)
	p.f("\t\t\tmax_mtu:\t\t%s (%d)\n", mtu(a.MaxMTU), uint8(a.MaxMTU))
	p.f("\t\t\tactive_mtu:\t\t%s (%d)\n", mtu(a.ActiveMTU), uint8(a.ActiveMTU))
	p.f("\t\t\tsm_lid:\t\t\t%d\n", a.SMLID)
	p.f("\t\t\tport_lid:\t\t%d\n", a.LID)
	p.f("\t\t\tport_lmc:\t\t0x%02x\n", a.LMC)
	p.f("\t\t\tlink_layer:\t\t%s\n", a.LinkLayer)
}

func (p printer) portDetails(port *Port, node ib.NodeType) {
	a := &port.Attr
	p.f("\t\t\tmax_msg_sz:\t\t0x%x\n", a.MaxMsgSz)
	p.f("\t\t\tport_cap_flags:\t\t0x%08x\n", a.PortCapFlags)
	p.f("\t\t\tport_cap_flags2:\t0x0000\n")
	p.f("\t\t\tmax_vl_num:\t\t%s (%d)\n", word(virtualLanes, a.MaxVLNum, "invalid value"),
		a.MaxVLNum)
	p.f("\t\t\tbad_pkey_cntr:\t\t0x%x\n", a.BadPKeyCntr)
	p.f("\t\t\tqkey_viol_cntr:\t\t0x%x\n", a.QKeyViolCntr)
	p.f("\t\t\tsm_sl:\t\t\t%d\n", a.SMSL)
	p.f("\t\t\tpkey_tbl_len:\t\t%d\n", a.PKeyTblLen)
	p.f("\t\t\tgid_tbl_len:\t\t%d\n", a.GIDTblLen)
	p.f("\t\t\tsubnet_timeout:\t\t%d\n", a.SubnetTimeout)
	p.f("\t\t\tinit_type_reply:\t%d\n", a.InitTypeReply)
	p.f("\t\t\tactive_width:\t\t%sX (%d)\n", word(linkWidths, a.ActiveWidth, "invalid width"),
		a.ActiveWidth)
	p.f("\t\t\tactive_speed:\t\t%s (%d)\n", word(linkSpeeds, a.ActiveSpeed, "invalid speed"),
		a.ActiveSpeed)
	if node == ib.NodeCA { // ibv_devinfo asks it of InfiniBand's transport only
		p.f("\t\t\tphys_state:\t\t%s (%d)\n",
			word(physStates, a.PhysState, "invalid physical state"), a.PhysState)
	}
	for _, g := range port.GIDs {
		if [8]byte(g.GID[8:]) == [8]byte{} {
			// ibv_devinfo takes no interface identifier for no GID: iWARP's
			continue
		}
		p.f("\t\t\tGID[%3d]:\t\t%s, %s\n", g.Index, gidText(g), gidType(g.Type))
	}
}

// gidText formats a GID as ibv_devinfo does: in full for RoCE v1, as an IPv6
// address for RoCE v2.
func gidText(g ib.GIDEntry) string {
	if g.Type == ib.GIDTypeRoCEv2 {
		return netip.AddrFrom16(g.GID).String()
	}
	return g.GID.String()
}

// odpFlags prints the names of the bits that are set, from bit 0 on.
func (p printer) odpFlags(caps uint64, names ...string) {
	for i, name := range names {
		if caps>>i&1 != 0 {
			p.f("\t\t\t\t\t%s\n", name)
		}
	}
}
