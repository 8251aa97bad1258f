// SPDX-License-Identifier: BSD-2-Clause

package portshare

import (
	"errors"
	"net/netip"
	"sync"

	"verbena/ib"
	"verbena/internal/sys/udp"
	"verbena/internal/sys/xsk"
)

// solo is the only process on its addresses.
type solo struct {
	// immutable
	opt  udp.Options
	over func(a, b string) bool

	mu      sync.Mutex
	sockets map[netip.Addr]*udp.Socket // guarded by mu
	keys    map[string]bool            // guarded by mu
}

func newSolo(o Options) *solo {
	o.Socket.ReusePort = false
	return &solo{opt: o.Socket, over: o.MADRules.overlap, sockets: map[netip.Addr]*udp.Socket{},
		keys: map[string]bool{}}
}

func (s *solo) Slot() int { return 0 }

func (s *solo) Name() string { return "" }

func (s *solo) Meeting(int) string { return "" }

// QPNRange leaves out QP0, QP1 and the multicast number.
func (s *solo) QPNRange() (lo, hi ib.QPN) { return ib.QP1 + 1, ib.QPMulticast - 1 }

func (s *solo) Socket(addr netip.Addr) (*udp.Socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sk := s.sockets[addr]; sk != nil {
		return sk, nil
	}
	sk, err := udp.Listen(addr, Port, s.opt)
	if err != nil {
		return nil, &PortError{Addr: addr, Err: err}
	}
	s.sockets[addr] = sk
	return sk, nil
}

// Part fails: the kernel steers nothing.
func (s *solo) Part(netip.Addr, int) (*udp.Socket, error) { return nil, errors.ErrUnsupported }

// SteerPart fails, as Part.
func (s *solo) SteerPart(netip.Addr, int) error { return errors.ErrUnsupported }

// Receive needs Socket: no other process has the port open.
func (s *solo) Receive(netip.Addr) error { return errors.ErrUnsupported }

// Send does nothing: no address is received at.
func (s *solo) Send(netip.Addr, netip.AddrPort, []byte) error { return errors.ErrUnsupported }

// Watch has nothing to wait for: Socket gets management datagrams, too.
func (s *solo) Watch(int) error { return errors.ErrUnsupported }

// Unwatch does nothing.
func (s *solo) Unwatch(int) {}

// Read does nothing.
func (s *solo) Read() (more bool) { return false }

// Pass does nothing: the only process judges all datagrams itself.
func (s *solo) Pass(*Numbers) {}

// Frames fails: a program steers frames by slots.
func (s *solo) Frames(i Interface) (*xsk.Socket, error) {
	return nil, &FramesError{i.Name, errors.New("a process that does not share the port has none")}
}

// SteerPort fails: there are no frames.
func (s *solo) SteerPort(int, *udp.Socket) error { return errors.ErrUnsupported }

// UnsteerPort does nothing.
func (s *solo) UnsteerPort(int, netip.AddrPort) {}

func (s *solo) Dropped() (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sk := range s.sockets {
		n += sk.Counters().KernelDropped
	}
	return n
}

// KeeperDropped is 0: this process's own sockets receive management datagrams.
func (s *solo) KeeperDropped() uint64 { return 0 }

func (s *solo) Listen(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.keys {
		if s.over(key, k) {
			return keyError(key)
		}
	}
	s.keys[key] = true
	return nil
}

func (s *solo) Unlisten(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

// SetWill keeps nothing: nobody is there to send it.
func (s *solo) SetWill(_ uint64, w Will) error { return w.check() }

func (s *solo) ClearWill(uint64) {}

func (s *solo) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, sk := range s.sockets {
		errs = append(errs, sk.Close())
	}
	clear(s.sockets)
	return errors.Join(errs...)
}
