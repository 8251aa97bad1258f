// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

// Accept takes a request: rdma_accept(3), on the ID that ConnectRequest brought.
// The ID's queue pair is ready to receive and to send when it returns; send
// after Established. Private data are at most 196 bytes, 136 for datagrams, 508
// over iWARP. p may be nil for datagrams.
//
// Errors: ECONNRESET if the peer has given up meanwhile.
func (id *ID) Accept(p *ConnParam) error {
	if p == nil {
		p = &ConnParam{}
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Accept", stRequested); err != nil {
		return err
	}
	if err := id.proto.accept(p); err != nil {
		return err
	}
	id.state = stAccepting
	if id.datagrams() {
		id.state = stEstablished
	}
	return nil
}

// Reject refuses a request, or a peer's acceptance after ConnectResponse:
// rdma_reject(3). Private data are at most 148 bytes, 136 for
// datagrams, 508 over iWARP.
func (id *ID) Reject(private []byte) error { return id.reject("Reject", false, private) }

// RejectECE refuses as Reject does, because the peer asks for options of the queue pair beyond the
// specification: rdma_reject_ece(3).
func (id *ID) RejectECE(private []byte) error { return id.reject("RejectECE", true, private) }

func (id *ID) reject(call string, ece bool, private []byte) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	err := id.check(call, stRequested, stReplied)
	if err == nil {
		err = id.proto.reject(call, ece, private)
	}
	id.logReject(err)
	if err != nil {
		return err
	}
	id.state = stDisconnected
	return nil
}
