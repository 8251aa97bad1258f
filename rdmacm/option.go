// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

// SetTOS sets the traffic class of the connection's packets: RDMA_OPTION_ID_TOS. Call it before
// Connect or Accept. RC takes the DSCP from it, and sets the ECN bits by itself.
func (id *ID) SetTOS(tos uint8) {
	id.mu.Lock()
	id.tos = tos
	id.mu.Unlock()
}

// SetACKTimeout sets the local ACK time-out of the connection's queue pairs to
// 4.096 µs × 2^code, 1 to 31: RDMA_OPTION_ID_ACK_TIMEOUT. Call it before Connect.
// Without it the code is 17, 0.54 s.
func (id *ID) SetACKTimeout(code uint8) error {
	if code < 1 || code > 31 {
		return invalid("code", "%d: must be 1 to 31", code)
	}
	id.mu.Lock()
	id.ackCode = code
	id.mu.Unlock()
	return nil
}

// SetReuseAddr lets the ID bind to a port that other identifiers with this
// option hold: RDMA_OPTION_ID_REUSEADDR. One of them may listen, when the
// others have been destroyed.
//
// Errors: EINVAL once the ID is bound.
func (id *ID) SetReuseAddr(on bool) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("SetReuseAddr", stIdle); err != nil {
		return err
	}
	id.reuse = on
	return nil
}

// SetCRC sets whether the ID asks for CRCs in an iWARP stream, as it does by default. They are used
// if either end asks. Call it before Connect or Listen.
func (id *ID) SetCRC(on bool) {
	id.mu.Lock()
	id.noCRC = !on
	id.mu.Unlock()
}

// SetAFOnly makes the wildcard address of IPv6 stand for IPv6 alone, so that
// an IPv4 listener may have the same port: RDMA_OPTION_ID_AFONLY.
//
// Errors: EINVAL once the ID is bound.
func (id *ID) SetAFOnly(on bool) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("SetAFOnly", stIdle); err != nil {
		return err
	}
	id.afOnly = on
	return nil
}
