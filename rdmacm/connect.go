// SPDX-License-Identifier: BSD-2-Clause

package rdmacm

func checkPrivate(data []byte, most int) error {
	if len(data) > most {
		return invalid("PrivateData", "%d bytes: at most %d", len(data), most)
	}
	return nil
}

// Connect asks the peer for a connection: rdma_connect(3). Private data are at most 56 bytes, 180
// for datagrams, 508 over iWARP. In the IB port space the type of the queue pair decides whether it
// is one or datagrams: of the ID's queue pair, else of the one that p names. Established, Rejected
// or Unreachable follows. ConnectResponse follows if the ID has no queue pair; p must then name its
// number. p may be nil for datagrams.
func (id *ID) Connect(p *ConnParam) error {
	if p == nil {
		p = &ConnParam{}
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Connect", stRouteResolved); err != nil {
		return err
	}
	if err := id.become(id.connectType(p)); err != nil {
		return err
	}
	if err := id.proto.connect(p); err != nil {
		return err
	}
	id.state = stConnecting
	return nil
}

// depth resolves a number of READs and atomics. MaxRdAtomic stands for the maximum of the device
// and of limit.
func depth(asked, limit uint8) uint8 {
	if asked == MaxRdAtomic {
		asked = limit
	}
	return min(asked, limit, deviceRdAtomic)
}

// deviceRdAtomic is the device attribute MaxQPRdAtom.
const deviceRdAtomic = 128

// Establish confirms to the peer that the queue pair is ready, after ConnectResponse:
// rdma_establish(3). An ID with a queue pair does it by itself.
func (id *ID) Establish() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Establish", stReplied); err != nil {
		return err
	}
	if err := id.proto.establish(); err != nil {
		return err
	}
	id.state = stEstablished
	return nil
}

// Disconnect ends the connection: rdma_disconnect(3). The queue pair goes to
// the error state, so that outstanding work requests are flushed. Disconnected follows
// on both sides; after the peer's, Disconnect answers it, and both get
// TimewaitExit. Disconnecting twice does nothing. While the connection is not
// up it does no more than take the queue pair to the error state.
func (id *ID) Disconnect() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == stDisconnected {
		if !id.proto.begun() {
			return nil
		}
		return id.proto.disconnect()
	}
	if err := id.check("Disconnect", stConnecting, stReplied, stRequested, stAccepting,
		stEstablished); err != nil {
		return err
	}
	if id.datagrams() {
		return invalid("Disconnect", "datagrams have no connection")
	}
	return id.proto.disconnect()
}
