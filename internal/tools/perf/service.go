// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"fmt"
	"strings"

	"verbena/ib"
	"verbena/rdmacm"
)

// service is the transport service to measure: perftest's connection type.
type service string

const (
	serviceRC service = "RC"
	serviceUC service = "UC"
	serviceUD service = "UD"
)

// grhBytes stand before a message in the receive buffer of a UD queue pair.
const grhBytes = 40

// maxDatagram is the payload that the largest path MTU carries.
const maxDatagram = 4096

// parseService takes the name in any case.
func parseService(s string) (service, error) {
	switch v := service(strings.ToUpper(s)); v {
	case serviceRC, serviceUC, serviceUD:
		return v, nil
	}
	return "", fmt.Errorf("%q is not RC, UC or UD", s)
}

// check refuses an operation that the service does not have.
//
// Spec: IBTA volume 1, table 38
func (v service) check(op string) error {
	switch {
	case v != serviceRC && v != serviceUC && v != serviceUD:
		return fmt.Errorf("connection %q is not RC, UC or UD", string(v))
	case v != serviceRC && (op == "read" || op == "atomic"):
		return fmt.Errorf("%s has no %s: only RC has", v, test{op: op}.noun())
	case v == serviceUD && op == "write":
		return fmt.Errorf("UD has no RDMA WRITE: measure send, or WRITE over UC or RC")
	}
	return nil
}

// reliable reports whether lost messages are sent again. If not, a message may be lost without
// notice.
func (v service) reliable() bool { return v == serviceRC }

func (v service) qpType() ib.QPType {
	return map[service]ib.QPType{serviceRC: ib.QPTypeRC, serviceUC: ib.QPTypeUC,
		serviceUD: ib.QPTypeUD}[v]
}

// portSpace returns the connection manager's port space for queue pairs of the service.
func (v service) portSpace() rdmacm.PortSpace {
	return map[service]rdmacm.PortSpace{serviceRC: rdmacm.TCP, serviceUC: rdmacm.IB,
		serviceUD: rdmacm.UDP}[v]
}

// access returns the rights that a queue pair gives its peer.
func (v service) access() ib.Access {
	if v == serviceRC {
		return ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic
	}
	return ib.AccessRemoteWrite
}

// The attributes that ibv_modify_qp(3) wants of each service.
var (
	initMask = map[service]ib.QPAttrMask{
		serviceRC: ib.QPAccessFlags,
		serviceUC: ib.QPAccessFlags,
		serviceUD: ib.QPQKey,
	}
	rtrMask = map[service]ib.QPAttrMask{
		serviceRC: ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN | ib.QPMaxDestRdAtomic |
			ib.QPMinRNRTimer,
		serviceUC: ib.QPAV | ib.QPPathMTU | ib.QPDestQPN | ib.QPRQPSN,
		serviceUD: 0,
	}
	rtsMask = map[service]ib.QPAttrMask{
		serviceRC: ib.QPSQPSN | ib.QPTimeout | ib.QPRetryCnt | ib.QPRNRRetry | ib.QPMaxQPRdAtomic,
		serviceUC: ib.QPSQPSN,
		serviceUD: ib.QPSQPSN,
	}
)

// grh is the room before a message in a receive buffer.
func (v service) grh() int {
	if v == serviceUD {
		return grhBytes
	}
	return 0
}
