// SPDX-License-Identifier: BSD-2-Clause

package rawbench

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"

	"verbena/internal/monotime"
)

// maxPing bounds a ping: it is about latency.
const maxPing = 1500

// PingResult is half the round-trip times, sorted.
type PingResult struct{ OneWay []monotime.Duration }

// Percentile returns the one-way time that p percent of the pings stay within.
func (r PingResult) Percentile(p float64) monotime.Duration {
	if len(r.OneWay) == 0 {
		return 0
	}
	i := int(p / 100 * float64(len(r.OneWay)))
	return r.OneWay[max(0, min(i, len(r.OneWay)-1))]
}

// PingServer returns each datagram to its sender.
type PingServer struct{ s *plain }

// NewPingServer opens the server's socket.
func NewPingServer(addr netip.Addr) (*PingServer, error) {
	s, err := openPlain(addr)
	if err != nil {
		return nil, err
	}
	return &PingServer{s}, nil
}

// Addr returns where to send to.
func (v *PingServer) Addr() netip.AddrPort { return v.s.local() }

// Close closes the socket.
func (v *PingServer) Close() error { return v.s.close() }

// Run sends back datagrams until an empty one comes, busy polling.
func (v *PingServer) Run() error {
	buf := make([]byte, maxPing)
	for empty, quiet := 1, monotime.Time(0); ; empty++ {
		n, from, err := v.s.receive(buf)
		switch {
		case err != nil:
			return err
		case n == 0:
			return nil
		case n > 0:
			if err := v.s.send(buf[:n], from); err != nil {
				return err
			}
			empty, quiet = 0, 0
		case empty%yieldPolls == 0:
			runtime.Gosched()
			if empty%clockPolls != 0 {
				continue
			}
			if now := monotime.Now(); quiet == 0 {
				quiet = now
			} else if now.Sub(quiet) > idleAfter {
				return errors.New("rawbench: the client fell silent")
			}
		}
	}
}

// clockPolls is the number of empty polls between looks at the clock.
const clockPolls = 1 << 14

// RunPing sends count datagrams of the given size to a PingServer, each after
// the answer to the one before, and returns the times. A lost one is an error.
func RunPing(local netip.Addr, to netip.AddrPort, bytes, count int) (PingResult, error) {
	if bytes < 1 || bytes > maxPing {
		return PingResult{}, fmt.Errorf("rawbench: pings of %d bytes: must be 1 to %d",
			bytes, maxPing)
	}
	s, err := openPlain(local)
	if err != nil {
		return PingResult{}, err
	}
	defer s.close()
	dst := s.dest(to)
	buf, ping := make([]byte, maxPing), make([]byte, bytes)
	r := PingResult{OneWay: make([]monotime.Duration, 0, count)}
	for range count {
		start := monotime.Now()
		if err := s.send(ping, dst); err != nil {
			return PingResult{}, err
		}
		for empty := 1; ; empty++ {
			n, _, err := s.receive(buf)
			if err != nil {
				return PingResult{}, err
			}
			if n >= 0 {
				break
			}
			if empty%yieldPolls == 0 {
				runtime.Gosched()
				if empty%clockPolls == 0 && monotime.Now().Sub(start) > idleAfter {
					return PingResult{}, errors.New("rawbench: the server does not answer")
				}
			}
		}
		r.OneWay = append(r.OneWay, monotime.Now().Sub(start)/2)
	}
	slices.Sort(r.OneWay)
	return r, s.send(nil, dst)
}
