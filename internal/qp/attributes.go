// SPDX-License-Identifier: BSD-2-Clause

package qp

import "verbena/ib"

// attributes copy what a modification sets. The state and the capacities are not among them.
var attributes = []struct {
	bit ib.QPAttrMask
	set func(q, a *ib.QPAttr)
}{
	{ib.QPAccessFlags, func(q, a *ib.QPAttr) { q.AccessFlags = a.AccessFlags }},
	{ib.QPPort, func(q, a *ib.QPAttr) { q.PortNum = a.PortNum }},
	{ib.QPPKeyIndex, func(q, a *ib.QPAttr) { q.PKeyIndex = a.PKeyIndex }},
	{ib.QPQKey, func(q, a *ib.QPAttr) { q.QKey = a.QKey }},
	{ib.QPAV, func(q, a *ib.QPAttr) { q.AH = a.AH }},
	{ib.QPPathMTU, func(q, a *ib.QPAttr) { q.PathMTU = a.PathMTU }},
	{ib.QPDestQPN, func(q, a *ib.QPAttr) { q.DestQPN = a.DestQPN }},
	{ib.QPRQPSN, func(q, a *ib.QPAttr) { q.RQPSN = a.RQPSN }},
	{ib.QPSQPSN, func(q, a *ib.QPAttr) { q.SQPSN = a.SQPSN }},
	{ib.QPMaxQPRdAtomic, func(q, a *ib.QPAttr) { q.MaxRdAtomic = a.MaxRdAtomic }},
	{ib.QPMaxDestRdAtomic, func(q, a *ib.QPAttr) { q.MaxDestRdAtomic = a.MaxDestRdAtomic }},
	{ib.QPMinRNRTimer, func(q, a *ib.QPAttr) { q.MinRNRTimer = a.MinRNRTimer }},
	{ib.QPTimeout, func(q, a *ib.QPAttr) { q.Timeout = a.Timeout }},
	{ib.QPRetryCnt, func(q, a *ib.QPAttr) { q.RetryCnt = a.RetryCnt }},
	{ib.QPRNRRetry, func(q, a *ib.QPAttr) { q.RNRRetry = a.RNRRetry }},
	{ib.QPRateLimit, func(q, a *ib.QPAttr) {
		q.RateLimit, q.RateBurst, q.RatePacket = a.RateLimit, a.RateBurst, a.RatePacket
	}},
	{ib.QPAltPath, func(q, a *ib.QPAttr) {
		q.AltAH, q.AltPortNum, q.AltPKeyIndex = a.AltAH, a.AltPortNum, a.AltPKeyIndex
		q.AltTimeout = a.AltTimeout
	}},
	{ib.QPEnSQDAsyncNotify, func(q, a *ib.QPAttr) { q.EnSQDAsyncNotify = a.EnSQDAsyncNotify }},
}

// SetAttributes stores the attributes of a legal modification. Its effects are the machine's.
func (q *Core) SetAttributes(a *ib.QPAttr, mask ib.QPAttrMask) {
	for _, f := range attributes {
		if mask&f.bit != 0 {
			f.set(&q.Attr, a)
		}
	}
}
