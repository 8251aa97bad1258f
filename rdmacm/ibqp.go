// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

import "verbena/ib"

// attrFor fills the attributes for a state. As Linux's rdma_cm does, it leaves
// the RNR timer at its longest, 655 ms.
func (c *ibConnector) attrFor(s ib.QPState, t ib.QPType) (a ib.QPAttr, mask ib.QPAttrMask,
	known bool) {
	a.State, mask = s, ib.QPStateAttr
	p := &c.params
	switch {
	case s == ib.QPInit && t == ib.QPTypeUD:
		a.PortNum, a.QKey = 1, UDQKey
		mask |= ib.QPPKeyIndex | ib.QPPort | ib.QPQKey
	case s == ib.QPInit:
		a.PortNum, a.AccessFlags = 1, ib.AccessRemoteWrite|ib.AccessRemoteRead|ib.AccessRemoteAtomic
		mask |= ib.QPPKeyIndex | ib.QPPort | ib.QPAccessFlags
	case s == ib.QPRTR && t != ib.QPTypeUD:
		a.AH, a.PathMTU, a.DestQPN, a.RQPSN = c.ahAttr(), p.PathMTU, p.DestQPN, p.RQPSN
		mask |= ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN
		if t == ib.QPTypeRC || t == ib.QPTypeXRCRecv {
			a.MaxDestRdAtomic = p.MaxDestRdAtomic
			mask |= ib.QPMaxDestRdAtomic | ib.QPMinRNRTimer
		}
	case s == ib.QPRTS:
		a.SQPSN = p.SQPSN
		mask |= ib.QPSQPSN
		if t == ib.QPTypeXRCRecv {
			a.Timeout = p.Timeout
			mask |= ib.QPTimeout
		}
		if t == ib.QPTypeRC || t == ib.QPTypeXRCSend {
			a.Timeout, a.RetryCnt, a.RNRRetry, a.MaxRdAtomic = p.Timeout, p.RetryCnt, p.RNRRetry,
				p.MaxRdAtomic
			mask |= ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic
		}
	}
	return a, mask, s == ib.QPInit || t == ib.QPTypeUD || p.DestQPN != 0
}

// ahAttr is the address vector to the peer.
func (c *ibConnector) ahAttr() ib.AHAttr {
	a := c.ahTo(ib.GIDFromAddr(c.peer.Addr().WithZone("")))
	if a.GRH.TrafficClass == 0 {
		a.GRH.TrafficClass = c.params.TrafficClass
	}
	a.GRH.FlowLabel = c.params.FlowLabel
	return a
}
