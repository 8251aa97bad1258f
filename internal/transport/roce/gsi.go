// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"net/netip"
	"sync"
	"syscall"

	"verbena/ib"
	"verbena/internal/cm/ibcm"
	"verbena/internal/roce"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/portshare"
	"verbena/internal/sys/udp"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/pcap"
	wire "verbena/internal/wire/roce"
)

// gsi is the general services interface: QP1, over which connection managers talk. It is one for
// all processes of an address; package portshare brings each its own datagrams.
type gsi struct {
	mu      sync.Mutex
	pkt     wire.Packet  // guarded by mu
	meta    roce.Meta    // guarded by mu
	refuser ibcm.Refuser // guarded by refuseMu
	handler func(m *roce.Meta, mad []byte)
	lost    func()

	refuseMu sync.Mutex
	refused  ibcm.Datagram // guarded by refuseMu: the refuser's answer

	sendMu sync.Mutex // leaf
	out    [1]udp.Datagrams
	vec    [1][]byte
	buf    [portshare.MaxWillBytes]byte // guarded by sendMu, as out and vec
}

// madBytes is the size of every MAD. Spec: IBTA vol. 1, 13.4.2.
const madBytes = 256

// madWords holds the words of a datagram for QP1 that a connection manager takes: its opcode, its
// Q_Key, and the class of its MAD.
var madWords = []portshare.Word{
	{At: 0, Mask: 0xff << 24, Value: uint32(wire.UDSendOnly) << 24},
	{At: wire.BTHBytes, Mask: 0xffffffff, Value: uint32(ib.QKeyGSI)},
	{At: wire.BTHBytes + wire.DETHBytes, Mask: 0xffffffff,
		Value: cm.BaseVersion<<24 | cm.Class<<16 | cm.ClassVersion<<8 | cm.MethodSend},
}

// madDatagramBytes is the length of the UDP payload that carries one.
const madDatagramBytes = wire.BTHBytes + wire.DETHBytes + madBytes + wire.ICRCBytes

// OnMAD sets the function that takes the MADs for this process. It is called with gsi.mu or
// Port.rxMu held: it must not block, call the engine or keep the bytes.
func (t *Transport) OnMAD(f func(m *roce.Meta, mad []byte)) {
	t.gsi.mu.Lock()
	t.gsi.handler = f
	t.gsi.mu.Unlock()
}

// OnLoss sets a function that is called when MADs for this process may have been lost with the
// process that passed them on. It is called with gsi.mu held, as OnMAD's is.
func (t *Transport) OnLoss(f func()) {
	t.gsi.mu.Lock()
	t.gsi.lost = f
	t.gsi.mu.Unlock()
}

func (t *Transport) lostMADs() {
	t.gsi.mu.Lock()
	defer t.gsi.mu.Unlock()
	if t.gsi.lost != nil {
		t.gsi.lost()
	}
}

// takeMAD takes a management datagram that package share brought.
func (t *Transport) takeMAD(m portshare.MAD) {
	g := &t.gsi
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.pkt.Parse(m.Payload); v != wire.WellFormed {
		t.count.malformed[v].Add(1)
		return
	}
	pseudo := wire.NewPseudo(m.Src.Addr(), m.Dst, m.Src.Port(), roce.UDPPort)
	id, ok := pseudo.Verify(m.Payload, 0)
	if t.eng.Capture() != nil {
		t.eng.Capture().Received(&pcap.Datagram{Src: m.Src, IPID: id, TrafficClass: m.TOS,
			Dst: netip.AddrPortFrom(m.Dst, roce.UDPPort), Payload: m.Payload})
	}
	if !ok {
		t.count.badICRC.Add(1)
		return
	}
	g.meta = roce.Meta{Src: m.Src.Addr(), Dst: m.Dst, SrcPort: m.Src.Port(), TOS: m.TOS}
	t.management(&g.pkt, &g.meta, g.handler)
}

// management hands a packet to QP1 to the connection manager.
func (t *Transport) management(p *wire.Packet, m *roce.Meta, handler func(*roce.Meta, []byte)) {
	t.eng.Stranger()
	switch {
	case p.Opcode != wire.UDSendOnly || len(p.Payload) != madBytes:
		t.count.badMAD.Add(1)
	case p.DETH.QKey != ib.QKeyGSI:
		t.count.badMADKey.Add(1)
	case handler == nil:
		t.refuse(m, p.Payload)
	default:
		handler(m, p.Payload)
	}
}

// refuse answers for a process that uses no connection manager, so that its
// peers need not wait for their time-outs.
func (t *Transport) refuse(m *roce.Meta, mad []byte) {
	g := &t.gsi
	g.refuseMu.Lock()
	defer g.refuseMu.Unlock()
	if d := &g.refused; g.refuser.Refuse(ibcm.Path{Local: m.Dst, Remote: m.Src}, mad, d) {
		// Not sent is as good as lost: the peer asks again.
		_ = t.sendMAD(d.Path.Local, d.Path.Remote, d.MAD[:])
	}
}

// route is route where this process is the keeper.
func (t *Transport) route(datagram []byte, dst netip.Addr) portshare.Route {
	t.eng.Stranger()
	return route(datagram, dst)
}

// route returns the process, for package portshare, that a management datagram to a local address
// is for.
func route(datagram []byte, dst netip.Addr) portshare.Route {
	var p wire.Packet
	if p.Parse(datagram) != wire.WellFormed || len(p.Payload) != madBytes {
		return portshare.Route{}
	}
	switch r := ibcm.RouteOf(p.Payload); r.Target {
	case ibcm.ToListener:
		return portshare.Route{To: portshare.ToKey, Keys: serviceKeys(uint64(r.ServiceID), dst)}
	case ibcm.ToSlot:
		return portshare.Route{To: portshare.ToSlot, Slot: int(r.Slot)}
	case ibcm.ToAll:
		return portshare.Route{To: portshare.ToAll}
	}
	return portshare.Route{}
}

// appendMAD appends the datagram that carries a MAD to QP1.
func appendMAD(b []byte, pseudo *wire.Pseudo, mad []byte) []byte {
	p := wire.Packet{
		BTH:  wire.BTH{Opcode: wire.UDSendOnly, MigReq: true, PKey: ib.DefaultPKey, DestQP: ib.QP1},
		Info: wire.UDSendOnly.Info(), DETH: wire.DETH{QKey: ib.QKeyGSI, SrcQP: ib.QP1},
		Payload: mad,
	}
	return pseudo.Seal(p.Append(b), 0)
}

// SendMAD sends a MAD from QP1 at a local address to QP1 at another. Acknowledgements of messages
// that the application has seen leave before it. The error is EAGAIN if there is no room for it
// now.
func (t *Transport) SendMAD(src, dst netip.Addr, mad []byte) error {
	t.eng.Settle()
	return t.sendMAD(src, dst, mad)
}

// Settle acknowledges at once all messages that the application has seen.
func (t *Transport) Settle() { t.eng.Settle() }

// sendMAD sends from the port of the address, if there is one, or has the keeper send: a
// source of its own would be a socket opened and closed for each MAD that a stranger sends.
func (t *Transport) sendMAD(src, dst netip.Addr, mad []byte) error {
	t.mu.Lock()
	p, received := t.opened[src], t.received[src]
	t.mu.Unlock()
	switch {
	case p != nil:
		return t.sendMADBy(p.sock, src, dst, mad)
	case received:
		return t.sendMADByKeeper(src, dst, mad)
	}
	s, err := t.source(src, uint32(ib.QP1))
	if err != nil {
		return err
	}
	defer t.dropSource(s)
	return t.sendMADBy(s.sock, src, dst, mad)
}

func (t *Transport) sendMADByKeeper(src, dst netip.Addr, mad []byte) error {
	pseudo := wire.NewPseudo(src.WithZone(""), dst.WithZone(""), roce.UDPPort, roce.UDPPort)
	if dst.IsLinkLocalUnicast() {
		dst = dst.WithZone(src.Zone())
	}
	g := &t.gsi
	g.sendMu.Lock()
	defer g.sendMu.Unlock()
	return t.member.Send(src, netip.AddrPortFrom(dst, roce.UDPPort),
		appendMAD(g.buf[:0], &pseudo, mad))
}

func (t *Transport) sendMADBy(sock faultcap.Socket, src, dst netip.Addr, mad []byte) error {
	pseudo := wire.NewPseudo(src.WithZone(""), dst.WithZone(""), sock.LocalAddr().Port(),
		roce.UDPPort)
	if dst.IsLinkLocalUnicast() {
		dst = dst.WithZone(src.Zone())
	}
	g := &t.gsi
	g.sendMu.Lock()
	defer g.sendMu.Unlock()
	g.vec[0] = appendMAD(g.buf[:0], &pseudo, mad)
	g.out[0] = udp.Datagrams{Dst: netip.AddrPortFrom(dst, roce.UDPPort), Iov: g.vec[:]}
	n, err := sock.WriteBatch(g.out[:])
	if n == 0 && err == nil {
		return syscall.EAGAIN
	}
	return err
}

// ListenService makes requests for a service id come to this process: those to
// the address scope, to all of its family if it is unspecified, to all addresses
// if it is the zero Addr. Errors: EADDRINUSE if another process, or this one, has a
// scope that overlaps.
func (t *Transport) ListenService(id uint64, scope netip.Addr) error {
	return t.member.Listen(serviceKey(id, scope))
}

// UnlistenService ends ListenService.
func (t *Transport) UnlistenService(id uint64, scope netip.Addr) {
	t.member.Unlisten(serviceKey(id, scope))
}

// SetWill leaves a MAD to be sent if this process dies without ClearWill.
func (t *Transport) SetWill(id uint64, src, dst netip.Addr, mad []byte) error {
	pseudo := wire.NewPseudo(src.WithZone(""), dst.WithZone(""), roce.UDPPort, roce.UDPPort)
	return t.member.SetWill(id, portshare.Will{
		Local: src, Dst: netip.AddrPortFrom(dst, roce.UDPPort),
		Datagram: appendMAD(nil, &pseudo, mad),
	})
}

// ClearWill withdraws a will.
func (t *Transport) ClearWill(id uint64) { t.member.ClearWill(id) }

// WatchMADs makes an epoll set readable when there is something for ReadMADs: see
// portshare.Member.Watch.
func (t *Transport) WatchMADs(epoll int) error { return t.member.Watch(epoll) }

// UnwatchMADs ends WatchMADs.
func (t *Transport) UnwatchMADs(epoll int) { t.member.Unwatch(epoll) }

// ReadMADs calls OnMAD's function for MADs that have come to a set of WatchMADs. It reports whether
// there may be more.
func (t *Transport) ReadMADs() (more bool) { return t.member.Read() }

// Slot is the top ten bits of the numbers that this process gives out: queue
// pair numbers and communication ids.
func (t *Transport) Slot() int { return t.member.Slot() }
