package rdmacm

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"verbena/ib"
	"verbena/internal/backdoor"
	"verbena/internal/engine"
	"verbena/internal/roce"
	wire "verbena/internal/wire/ntb"
	"verbena/verbs"
)

// ntbLinks carries MADs over links of windows, each from and to the ports at its
// two ends: it stands for the general services interface. A link has one process
// at either end, so that no port is shared, and who dies is found out by the link.
type ntbLinks struct {
	onEvent func(l *ntbLink, e ib.EventType) // immutable once links are there

	mu      sync.Mutex // a leaf
	handler func(*roce.Meta, []byte)
	list    []*ntbLink // those that MADs are taken from

	bad atomic.Uint64 // datagrams that are none, or not between the two ports
}

// ntbLink is a link in use.
type ntbLink struct {
	*engine.NTB
	verbs *verbs.Context
	stop  func() // ends what tells of the link's state
}

var _ gsi = (*ntbLinks)(nil)

var errLink = errors.New("rdmacm: the link is down, or full")

// attach begins to take MADs from a device's link.
func (s *ntbLinks) attach(c *verbs.Context) {
	eng := backdoor.NTB(c)
	s.mu.Lock()
	if slices.ContainsFunc(s.list, func(l *ntbLink) bool { return l.NTB == eng }) {
		s.mu.Unlock()
		return
	}
	l := &ntbLink{NTB: eng, verbs: c}
	s.list = append(s.list, l)
	s.mu.Unlock()
	l.stop = l.Watch(func(e ib.EventType) { s.onEvent(l, e) })
	l.OnMAD(func(p []byte) { s.take(l, p) })
}

// detachAll ends attach.
func (s *ntbLinks) detachAll() {
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for _, l := range list {
		l.OnMAD(nil)
		l.stop()
	}
}

// addrs returns the addresses of our port.
func (l *ntbLink) addrs() []netip.Addr {
	info := l.verbs.Info()
	list, _ := info.Addrs() // those of a link are configured: it does not fail
	return list
}

// has reports whether an address is our port's.
func (l *ntbLink) has(a netip.Addr) bool { return slices.Contains(l.addrs(), a) }

// take takes a management datagram. The peer may write what it likes.
func (s *ntbLinks) take(l *ntbLink, p []byte) {
	m, _, ok := wire.ParseManagement(p)
	meta := roce.Meta{Src: m.Source.Addr(), Dst: m.Destination.Addr()}
	ok = ok && l.has(meta.Dst) && slices.Contains(l.PeerAddrs(), meta.Src)
	if !ok {
		s.bad.Add(1)
		return
	}
	s.mu.Lock()
	h := s.handler
	s.mu.Unlock()
	if h != nil {
		h(&meta, m.MAD)
	}
}

// SendMAD sends a MAD over the link whose port has the source address.
func (s *ntbLinks) SendMAD(src, dst netip.Addr, mad []byte) error {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	p := wire.Management{Source: ib.GIDFromAddr(src), Destination: ib.GIDFromAddr(dst), MAD: mad}.Append(make([]byte, 0, wire.ManagementBytes))
	for _, l := range list {
		if l.has(src) && l.NTB.SendMAD(p) {
			return nil
		}
	}
	return errLink
}

func (s *ntbLinks) OnMAD(f func(*roce.Meta, []byte)) {
	s.mu.Lock()
	s.handler = f
	s.mu.Unlock()
}

func (*ntbLinks) OnCount([]string, func() []uint64)                    {}
func (*ntbLinks) OnLoss(func())                                        {}
func (*ntbLinks) Listen(netip.Addr) error                              { return nil }
func (*ntbLinks) ListenService(uint64, netip.Addr) error               { return nil }
func (*ntbLinks) UnlistenService(uint64, netip.Addr)                   {}
func (*ntbLinks) Settle()                                              {}
func (*ntbLinks) SetWill(uint64, netip.Addr, netip.Addr, []byte) error { return nil }
func (*ntbLinks) ClearWill(uint64)                                     {}
func (*ntbLinks) Slot() int                                            { return 0 }
