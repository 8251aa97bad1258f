package rdmacm

import (
	"errors"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/monotime"
	"verbena/internal/wire/cm"
)

// maxPrivate is how much private data the application may send, in bytes:
// what the message holds less the IP header in front of it.
func (id *ID) maxRequestPrivate() int {
	if id.datagrams() {
		return cm.SIDRREQPrivateSize - cm.IPHeaderSize // 180
	}
	return cm.REQPrivateSize - cm.IPHeaderSize // 56
}

func checkPrivate(data []byte, most int) error {
	if len(data) > most {
		return invalid("PrivateData", "%d bytes: at most %d", len(data), most)
	}
	return nil
}

// Connect asks the peer for a connection: rdma_connect(3). Private data are at
// most 56 bytes, 180 for datagrams. In the IB port space the type of the queue
// pair tells which it is: of the ID's, else of the one that p names.
// Established, Rejected or Unreachable follows; ConnectResponse if the ID has
// no queue pair, whose number p must then name.
func (id *ID) Connect(p *ConnParam) error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Connect", stRouteResolved); err != nil {
		return err
	}
	if err := id.become(id.connectType(p)); err != nil {
		return err
	}
	if err := checkPrivate(p.PrivateData, id.maxRequestPrivate()); err != nil {
		return err
	}
	h := cm.IPHeader{Port: id.local.Port(), Src: id.local.Addr().WithZone(""), Dst: id.peer.Addr().WithZone("")}
	private := append(h.Append(nil), p.PrivateData...)
	path := ibcm.Path{Local: id.place.addr, Remote: id.peer.Addr()}
	service := cm.NewServiceID(id.ps, id.peer.Port())
	if id.datagrams() {
		return id.start(func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error) {
			return a.ResolveSIDR(now, ibcm.SIDRParams{Path: path, ServiceID: service, PrivateData: private})
		})
	}
	if err := checkRetries(p); err != nil {
		return err
	}
	qpn, srq, transport, err := id.endpoint(p)
	if err != nil {
		return err
	}
	req := ibcm.ConnectParams{
		Path: path, ServiceID: service, Service: transport, QPN: qpn, PSN: ib.NewPSN(uint32(id.mgr.random())),
		PathMTU: id.place.mtu(), ResponderResources: depth(p.ResponderResources, MaxRdAtomic),
		InitiatorDepth: depth(p.InitiatorDepth, MaxRdAtomic), FlowControl: p.FlowControl, RetryCount: p.RetryCount,
		RNRRetryCount: p.RNRRetryCount, SRQ: srq, TrafficClass: id.tos, FlowLabel: uint32(id.mgr.random()) & (1<<20 - 1),
		PrivateData: private, ACKTimeout: id.ackCode,
	}
	return id.start(func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error) { return a.Connect(now, req) })
}

// start begins a request and remembers its connection, before an answer can
// come.
func (id *ID) start(f func(a *ibcm.Agent, now monotime.Time) (ibcm.ConnID, error)) error {
	m := id.mgr
	err := m.command(func(a *ibcm.Agent, now monotime.Time) error {
		if id.conn != 0 { // of an attempt before
			delete(m.conns, id.conn)
			a.Destroy(now, id.conn)
		}
		conn, err := f(a, now)
		if err == nil {
			id.conn = conn
			m.conns[conn] = id
		}
		return err
	})
	if errors.Is(err, ibcm.ErrTooMany) {
		return fail(syscall.ENOMEM, "Connect", "too many connections")
	}
	if err == nil {
		id.state = stConnecting
	}
	return err
}

// depth resolves a number of READs and atomics: MaxRdAtomic stands for the most
// that the device does and limit allows.
func depth(asked, limit uint8) uint8 {
	if asked == MaxRdAtomic {
		asked = limit
	}
	return min(asked, limit, deviceRdAtomic)
}

// deviceRdAtomic is the device attribute MaxQPRdAtom.
const deviceRdAtomic = 128

func checkRetries(p *ConnParam) error {
	if p.RetryCount > 7 {
		return invalid("RetryCount", "%d: must be 0 to 7", p.RetryCount)
	}
	if p.RNRRetryCount > 7 {
		return invalid("RNRRetryCount", "%d: must be 0 to 7", p.RNRRetryCount)
	}
	return nil
}

// endpoint returns the queue pair that will serve the connection: the ID's, or
// what the application says of its own.
func (id *ID) endpoint(p *ConnParam) (qpn ib.QPN, srq bool, t cm.TransportService, err error) {
	if id.qp == nil {
		if p.QPN <= ib.QP1 || p.QPN >= ib.QPMulticast {
			return 0, false, 0, invalid("QPN", "%v: the ID has no queue pair, so name one", p.QPN)
		}
		return p.QPN, p.SRQ, serviceOf(id.typ), nil
	}
	_, init := id.qp.Query()
	return id.qp.QPN(), init.SRQ != nil, serviceOf(id.typ), nil
}

// Establish tells the peer that the queue pair is ready, after ConnectResponse:
// rdma_establish(3). An ID with a queue pair does it by itself.
func (id *ID) Establish() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if err := id.check("Establish", stReplied); err != nil {
		return err
	}
	return id.establish()
}

// establish sends the RTU. The caller holds mu.
func (id *ID) establish() error {
	err := id.mgr.command(func(a *ibcm.Agent, now monotime.Time) error { return a.Establish(now, id.conn, nil) })
	if err != nil {
		return invalid("Establish", "%v", err)
	}
	id.state = stEstablished
	id.setWill()
	return nil
}

// Disconnect ends the connection: rdma_disconnect(3). The queue pair goes to
// the error state, so that what is outstanding is flushed. Disconnected follows
// on both sides; after the peer's, Disconnect answers it, and both get
// TimewaitExit. Disconnecting twice does nothing. While the connection is not
// up it does no more than take the queue pair to the error state.
func (id *ID) Disconnect() error {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.state == stDisconnected {
		return id.answerRelease()
	}
	if err := id.check("Disconnect", stConnecting, stReplied, stRequested, stAccepting, stEstablished); err != nil {
		return err
	}
	if id.datagrams() {
		return invalid("Disconnect", "datagrams have no connection")
	}
	if err := id.failQP(); err != nil || id.state != stEstablished {
		return err
	}
	return id.release()
}

// answerRelease answers the peer's DREQ, unless that has been done.
func (id *ID) answerRelease() error {
	if id.conn == 0 {
		return nil
	}
	if err := id.failQP(); err != nil {
		return err
	}
	return id.release()
}

func (id *ID) release() error {
	id.clearWill()
	err := id.mgr.command(func(a *ibcm.Agent, now monotime.Time) error { return a.Disconnect(now, id.conn, nil) })
	var wrong *ibcm.StateError
	if errors.As(err, &wrong) {
		return nil // released meanwhile, by the peer or before
	}
	return err
}

// setWill leaves a DREQ, or the answer to one, to be sent if this process dies. The caller holds mu.
func (id *ID) setWill() {
	var will ibcm.Datagram
	_ = id.mgr.command(func(a *ibcm.Agent, _ monotime.Time) error {
		will, id.willSet = a.Will(id.conn)
		return nil
	})
	if id.willSet {
		// Without it the peer learns by its own time-outs.
		_ = id.mgr.svc.SetWill(uint64(id.conn), will.Path.Local, will.Path.Remote, will.MAD[:])
	}
}

func (id *ID) clearWill() {
	if id.willSet {
		id.willSet = false
		id.mgr.svc.ClearWill(uint64(id.conn))
	}
}
