// SPDX-License-Identifier: BSD-2-Clause

package devinfo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"verbena/ib"
)

// jsonEntry is a line of `verbena devices --json`.
type jsonEntry struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`
	NetDev   string `json:"netdev,omitempty"`
	NodeGUID string `json:"node_guid"`
}

// PrintDevicesJSON prints a line of JSON for each device.
func PrintDevicesJSON(w io.Writer, list []Entry) error {
	enc := json.NewEncoder(w)
	for _, d := range list {
		if err := enc.Encode(jsonEntry{d.Name, d.Kind, d.NetDev, d.GUID.String()}); err != nil {
			return err
		}
	}
	return nil
}

// jsonInfo is a line of `verbena devinfo --json`. Names are those of struct
// ibv_device_attr and struct ibv_port_attr, values those that ibv_devinfo prints:
// numbers, and words where it has words.
type jsonInfo struct {
	jsonEntry
	Version        string         `json:"verbena"`
	Transport      string         `json:"transport"`
	NumCompVectors int            `json:"num_comp_vectors"`
	Attr           map[string]any `json:"device_attr"`
	Ports          []jsonPort     `json:"ports"`
}

type jsonPort struct {
	Port          int       `json:"port"`
	State         string    `json:"state"`
	PhysState     string    `json:"phys_state"`
	LinkLayer     string    `json:"link_layer"`
	MaxMTU        int       `json:"max_mtu"` // bytes
	ActiveMTU     int       `json:"active_mtu"`
	MaxMsgSz      uint32    `json:"max_msg_sz"`
	GIDTblLen     int       `json:"gid_tbl_len"`
	PKeyTblLen    uint16    `json:"pkey_tbl_len"`
	LID           uint16    `json:"lid"`
	BadPKeyCntr   uint32    `json:"bad_pkey_cntr"`
	QKeyViolCntr  uint32    `json:"qkey_viol_cntr"`
	SubnetTimeout uint8     `json:"subnet_timeout"`
	ActiveWidth   string    `json:"active_width"`
	ActiveSpeed   string    `json:"active_speed"`
	GIDs          []jsonGID `json:"gids"`
}

type jsonGID struct {
	Index int    `json:"index"`
	GID   string `json:"gid"`
	Type  string `json:"type"`
}

// PrintJSON prints a device as a line of JSON, with every attribute.
func PrintJSON(w io.Writer, d *Info) error {
	transport, _ := transportOf(d.Attr.NodeType)
	out := jsonInfo{
		jsonEntry: jsonEntry{d.Name, d.Kind, d.NetDev, d.Attr.NodeGUID.String()},
		Version:   d.Version, Transport: transport, NumCompVectors: d.CompVectors,
		Attr: attributes(&d.Attr),
	}
	for i := range d.Ports {
		a := &d.Ports[i].Attr
		p := jsonPort{
			Port: d.Ports[i].Number, State: portState(a.State),
			PhysState: word(physStates, a.PhysState, ""), LinkLayer: a.LinkLayer.String(),
			MaxMTU: a.MaxMTU.Bytes(), ActiveMTU: a.ActiveMTU.Bytes(), MaxMsgSz: a.MaxMsgSz,
			GIDTblLen: a.GIDTblLen, PKeyTblLen: a.PKeyTblLen, LID: a.LID,
			BadPKeyCntr: a.BadPKeyCntr, QKeyViolCntr: a.QKeyViolCntr,
			SubnetTimeout: a.SubnetTimeout, ActiveWidth: word(linkWidths, a.ActiveWidth, "") + "X",
			ActiveSpeed: word(linkSpeeds, a.ActiveSpeed, ""),
		}
		for _, g := range d.Ports[i].GIDs {
			if !g.GID.IsZero() {
				p.GIDs = append(p.GIDs, jsonGID{g.Index, gidText(g), gidType(g.Type)})
			}
		}
		out.Ports = append(out.Ports, p)
	}
	return json.NewEncoder(w).Encode(out)
}

// attributes returns the attributes of a device by the names of struct
// ibv_device_attr.
func attributes(a *ib.DeviceAttr) map[string]any {
	var flags []string
	for _, f := range slices.Concat(capFlags, extendedCapFlags) {
		if uint64(a.DeviceCapFlags)&f.bit != 0 {
			flags = append(flags, f.name)
		}
	}
	return map[string]any{
		"fw_ver": a.FWVer, "sys_image_guid": a.SysImageGUID.String(), "max_mr_size": a.MaxMRSize,
		"page_size_cap": a.PageSizeCap, "vendor_id": a.VendorID, "vendor_part_id": a.VendorPartID,
		"hw_ver": a.HWVer, "max_qp": a.MaxQP, "max_qp_wr": a.MaxQPWR,
		"device_cap_flags": fmt.Sprintf("0x%x", uint64(a.DeviceCapFlags)), "device_caps": flags,
		"max_sge": a.MaxSGE, "max_sge_rd": a.MaxSGERd, "max_inline_data": a.MaxInlineData,
		"max_cq": a.MaxCQ, "max_cqe": a.MaxCQE, "max_mr": a.MaxMR, "max_pd": a.MaxPD,
		"max_qp_rd_atom": a.MaxQPRdAtom, "max_res_rd_atom": a.MaxResRdAtom,
		"max_qp_init_rd_atom": a.MaxQPInitRdAtom, "atomic_cap": word(atomicCaps, a.AtomicCap, ""),
		"max_mw": a.MaxMW, "max_mcast_grp": a.MaxMcastGrp,
		"max_mcast_qp_attach":       a.MaxMcastQPAttach,
		"max_total_mcast_qp_attach": a.MaxTotalMcastQPAttach, "max_ah": a.MaxAH,
		"max_srq": a.MaxSRQ, "max_srq_wr": a.MaxSRQWR, "max_srq_sge": a.MaxSRQSGE,
		"max_fast_reg_pages": a.MaxFastRegPages, "max_pkeys": a.MaxPKeys,
		"local_ca_ack_delay": a.LocalCAAckDelay, "phys_port_cnt": a.PhysPortCnt,
	}
}
