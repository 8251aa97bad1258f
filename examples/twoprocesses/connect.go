// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"encoding/json"
	"io"
	"math/rand/v2"

	"verbena/ib"
)

// connect exchanges addresses with the peer, and takes the queue pair to RTS.
func (e *end) connect(in io.Reader, out io.Writer) (peer address, err error) {
	const port, gidIndex = 1, 0
	mine := address{QPN: e.qp.QPN(), PSN: ib.NewPSN(rand.Uint32()), Addr: e.memory.Addr(),
		RKey: e.memory.RKey()}
	if mine.GID, err = e.dev.QueryGID(port, gidIndex); err != nil {
		return peer, err
	}
	attr, err := e.dev.QueryPort(port)
	if err != nil {
		return peer, err
	}

	// INIT: the queue pair has a port, and the rights of its peer.
	err = e.qp.Modify(&ib.QPAttr{State: ib.QPInit, PortNum: port, AccessFlags: access},
		ib.QPStateAttr|ib.QPPort|ib.QPPKeyIndex|ib.QPAccessFlags)
	if err != nil {
		return peer, err
	}
	if err := json.NewEncoder(out).Encode(mine); err != nil {
		return peer, err
	}
	if err := json.NewDecoder(in).Decode(&peer); err != nil {
		return peer, err
	}

	// RTR: it knows its peer, and answers requests.
	err = e.qp.Modify(&ib.QPAttr{
		State: ib.QPRTR, DestQPN: peer.QPN, RQPSN: peer.PSN, PathMTU: attr.ActiveMTU,
		MaxDestRdAtomic: 1, MinRNRTimer: 12,
		AH: ib.AHAttr{IsGlobal: true, PortNum: port,
			GRH: ib.GRH{DGID: peer.GID, SGIDIndex: gidIndex}},
	}, ib.QPStateAttr|ib.QPAV|ib.QPDestQPN|ib.QPRQPSN|ib.QPPathMTU|ib.QPMaxDestRdAtomic|
		ib.QPMinRNRTimer)
	if err != nil {
		return peer, err
	}

	// RTS: it sends requests. The peer answers them once it is in RTR; a request that comes too
	// early is repeated.
	err = e.qp.Modify(&ib.QPAttr{State: ib.QPRTS, SQPSN: mine.PSN, Timeout: 14, RetryCnt: 7,
		RNRRetry: 7, MaxRdAtomic: 1},
		ib.QPStateAttr|ib.QPSQPSN|ib.QPTimeout|ib.QPRetryCnt|ib.QPRNRRetry|ib.QPMaxQPRdAtomic)
	return peer, err
}
