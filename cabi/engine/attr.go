// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

import (
	"math"

	"verbena/ib"
)

// maskBits pairs the bits of enum ibv_qp_attr_mask with those of ib.QPAttrMask.
var maskBits = [...]struct {
	c  C.int
	ib ib.QPAttrMask
}{
	{C.IBV_QP_STATE, ib.QPStateAttr},
	{C.IBV_QP_CUR_STATE, ib.QPCurState},
	{C.IBV_QP_EN_SQD_ASYNC_NOTIFY, ib.QPEnSQDAsyncNotify},
	{C.IBV_QP_ACCESS_FLAGS, ib.QPAccessFlags},
	{C.IBV_QP_PKEY_INDEX, ib.QPPKeyIndex},
	{C.IBV_QP_PORT, ib.QPPort},
	{C.IBV_QP_QKEY, ib.QPQKey},
	{C.IBV_QP_AV, ib.QPAV},
	{C.IBV_QP_PATH_MTU, ib.QPPathMTU},
	{C.IBV_QP_TIMEOUT, ib.QPTimeout},
	{C.IBV_QP_RETRY_CNT, ib.QPRetryCnt},
	{C.IBV_QP_RNR_RETRY, ib.QPRNRRetry},
	{C.IBV_QP_RQ_PSN, ib.QPRQPSN},
	{C.IBV_QP_MAX_QP_RD_ATOMIC, ib.QPMaxQPRdAtomic},
	{C.IBV_QP_ALT_PATH, ib.QPAltPath},
	{C.IBV_QP_MIN_RNR_TIMER, ib.QPMinRNRTimer},
	{C.IBV_QP_SQ_PSN, ib.QPSQPSN},
	{C.IBV_QP_MAX_DEST_RD_ATOMIC, ib.QPMaxDestRdAtomic},
	{C.IBV_QP_PATH_MIG_STATE, ib.QPPathMigState},
	{C.IBV_QP_CAP, ib.QPCapAttr},
	{C.IBV_QP_DEST_QPN, ib.QPDestQPN},
	{C.IBV_QP_RATE_LIMIT, ib.QPRateLimit},
}

func qpMask(mask C.int) (m ib.QPAttrMask, err error) {
	for _, b := range maskBits {
		if mask&b.c != 0 {
			m |= b.ib
			mask &^= b.c
		}
	}
	if mask != 0 {
		return 0, invalid("unknown attributes %#x", int(mask))
	}
	return m, nil
}

func cMask(m ib.QPAttrMask) (mask C.int) {
	for _, b := range maskBits {
		if m&b.ib != 0 {
			mask |= b.c
		}
	}
	return mask
}

// small converts an int of C to a byte. A larger one becomes 255, which is invalid for every
// attribute.
func small(v uint32) uint8 { return uint8(min(v, math.MaxUint8)) }

func flag(b bool) C.uint8_t {
	if b {
		return 1
	}
	return 0
}

func qpAttr(a *C.struct_ibv_qp_attr) ib.QPAttr {
	return ib.QPAttr{
		State:            ib.QPState(small(a.qp_state)),
		CurState:         ib.QPState(small(a.cur_qp_state)),
		PathMTU:          ib.MTU(small(a.path_mtu)),
		PathMigState:     ib.MigState(small(a.path_mig_state)),
		QKey:             ib.QKey(a.qkey),
		RQPSN:            ib.PSN(a.rq_psn),
		SQPSN:            ib.PSN(a.sq_psn),
		DestQPN:          ib.QPN(a.dest_qp_num),
		AccessFlags:      ib.Access(a.qp_access_flags),
		Cap:              qpCap(&a.cap),
		AH:               ahAttr(&a.ah_attr),
		AltAH:            ahAttr(&a.alt_ah_attr),
		PKeyIndex:        uint16(a.pkey_index),
		AltPKeyIndex:     uint16(a.alt_pkey_index),
		EnSQDAsyncNotify: a.en_sqd_async_notify != 0,
		SQDraining:       a.sq_draining != 0,
		MaxRdAtomic:      uint8(a.max_rd_atomic),
		MaxDestRdAtomic:  uint8(a.max_dest_rd_atomic),
		MinRNRTimer:      uint8(a.min_rnr_timer),
		PortNum:          uint8(a.port_num),
		Timeout:          uint8(a.timeout),
		RetryCnt:         uint8(a.retry_cnt),
		RNRRetry:         uint8(a.rnr_retry),
		AltPortNum:       uint8(a.alt_port_num),
		AltTimeout:       uint8(a.alt_timeout),
		RateLimit:        uint32(a.rate_limit),
	}
}

func putQPAttr(to *C.struct_ibv_qp_attr, a *ib.QPAttr) {
	*to = C.struct_ibv_qp_attr{
		qp_state:            C.enum_ibv_qp_state(a.State),
		cur_qp_state:        C.enum_ibv_qp_state(a.CurState),
		path_mtu:            C.enum_ibv_mtu(a.PathMTU),
		path_mig_state:      C.enum_ibv_mig_state(a.PathMigState),
		qkey:                C.uint32_t(a.QKey),
		rq_psn:              C.uint32_t(a.RQPSN),
		sq_psn:              C.uint32_t(a.SQPSN),
		dest_qp_num:         C.uint32_t(a.DestQPN),
		qp_access_flags:     C.uint(a.AccessFlags),
		cap:                 cCap(a.Cap),
		ah_attr:             cAHAttr(&a.AH),
		alt_ah_attr:         cAHAttr(&a.AltAH),
		pkey_index:          C.uint16_t(a.PKeyIndex),
		alt_pkey_index:      C.uint16_t(a.AltPKeyIndex),
		en_sqd_async_notify: flag(a.EnSQDAsyncNotify),
		sq_draining:         flag(a.SQDraining),
		max_rd_atomic:       C.uint8_t(a.MaxRdAtomic),
		max_dest_rd_atomic:  C.uint8_t(a.MaxDestRdAtomic),
		min_rnr_timer:       C.uint8_t(a.MinRNRTimer),
		port_num:            C.uint8_t(a.PortNum),
		timeout:             C.uint8_t(a.Timeout),
		retry_cnt:           C.uint8_t(a.RetryCnt),
		rnr_retry:           C.uint8_t(a.RNRRetry),
		alt_port_num:        C.uint8_t(a.AltPortNum),
		alt_timeout:         C.uint8_t(a.AltTimeout),
		rate_limit:          C.uint32_t(a.RateLimit),
	}
}

func qpCap(c *C.struct_ibv_qp_cap) ib.QPCap {
	return ib.QPCap{
		MaxSendWR: uint32(c.max_send_wr), MaxRecvWR: uint32(c.max_recv_wr),
		MaxSendSGE: uint32(c.max_send_sge), MaxRecvSGE: uint32(c.max_recv_sge),
		MaxInlineData: uint32(c.max_inline_data),
	}
}

func cCap(c ib.QPCap) C.struct_ibv_qp_cap {
	return C.struct_ibv_qp_cap{
		max_send_wr: C.uint32_t(c.MaxSendWR), max_recv_wr: C.uint32_t(c.MaxRecvWR),
		max_send_sge: C.uint32_t(c.MaxSendSGE), max_recv_sge: C.uint32_t(c.MaxRecvSGE),
		max_inline_data: C.uint32_t(c.MaxInlineData),
	}
}

// flowLabelMask has the bits of a flow label that drivers use; UCX fills all 32 bits.
const flowLabelMask = 1<<20 - 1

func ahAttr(a *C.struct_ibv_ah_attr) ib.AHAttr {
	return ib.AHAttr{
		GRH: ib.GRH{
			DGID: ib.GID(a.grh.dgid), FlowLabel: uint32(a.grh.flow_label) & flowLabelMask,
			SGIDIndex: uint8(a.grh.sgid_index), HopLimit: uint8(a.grh.hop_limit),
			TrafficClass: uint8(a.grh.traffic_class),
		},
		IsGlobal: a.is_global != 0, DLID: uint16(a.dlid), SL: uint8(a.sl),
		SrcPathBits: uint8(a.src_path_bits), StaticRate: uint8(a.static_rate),
		PortNum: uint8(a.port_num),
	}
}

func cAHAttr(a *ib.AHAttr) C.struct_ibv_ah_attr {
	return C.struct_ibv_ah_attr{
		grh: C.struct_ibv_global_route{
			dgid: C.union_ibv_gid(a.GRH.DGID), flow_label: C.uint32_t(a.GRH.FlowLabel),
			sgid_index: C.uint8_t(a.GRH.SGIDIndex), hop_limit: C.uint8_t(a.GRH.HopLimit),
			traffic_class: C.uint8_t(a.GRH.TrafficClass),
		},
		is_global: flag(a.IsGlobal), dlid: C.uint16_t(a.DLID), sl: C.uint8_t(a.SL),
		src_path_bits: C.uint8_t(a.SrcPathBits), static_rate: C.uint8_t(a.StaticRate),
		port_num: C.uint8_t(a.PortNum),
	}
}
