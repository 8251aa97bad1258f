// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"errors"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"verbena/internal/monotime"
	"verbena/internal/simnet"
	"verbena/internal/sys/tun"
)

// wire carries frames between TAP interfaces over an emulated network, whose time follows the
// clock. One thread does it all.
type wire struct {
	net      *simnet.Net
	ports    []*port
	stations map[mac]*port // by the addresses that frames come from
	began    time.Time
	late     *hdrhistogram.Histogram // from a frame's time in the network to its hand-over, in ns

	frameBytes int
	free       []frame
	frames     int // that have memory, free or not
	mostFrames int

	tooMany int // frames for which there was no memory
	refused int // frames that the kernel did not take
}

// port is a host's interface.
type port struct {
	addr netip.Addr // names the host in the network
	tap  *tun.TAP
}

// Bounds of a wire.
const (
	maxFrameMemory = 256 << 20 // 1 Gb/s for 2 s
	maxStations    = 4096      // beyond them frames go to all ports, as in a switch
	batch          = 256       // frames read of a port before the others' turn
	mostLate       = 10 * time.Second
)

// Bounds of a wire's grain.
const (
	leastGrain = 20 * time.Microsecond
	mostGrain  = 200 * time.Microsecond
)

// grainOf returns the time for which the thread sleeps between two looks while there are frames:
// a tenth of the shortest delay. Timers cost more than frames do, in a virtual machine above all.
func grainOf(net *simnet.Net) time.Duration {
	shortest := time.Duration(mostGrain * 10)
	for _, l := range net.Links() {
		shortest = min(shortest, l.Delay)
	}
	return min(max(shortest/10, leastGrain), mostGrain)
}

func newWire(net *simnet.Net, mtu int, ports []*port) *wire {
	w := &wire{net: net, ports: ports, stations: map[mac]*port{}, began: time.Now(),
		late:       hdrhistogram.New(1, int64(mostLate), 2),
		frameBytes: ethernetHeader + vlanTag + mtu}
	w.mostFrames = maxFrameMemory / w.frameBytes
	for _, p := range ports {
		net.Attach(p.addr, func(d *simnet.Datagram) { w.leave(p, d) })
	}
	net.Dropped = func(d *simnet.Datagram) { w.recycle(d.Payload) }
	return w
}

// vlanTag is the length of the tag of a VLAN, which a frame may have beside its MTU and header.
const vlanTag = 4

// carry carries frames until the first interface's Stop.
func (w *wire) carry() error {
	var taps []*tun.TAP
	for _, p := range w.ports {
		taps = append(taps, p.tap)
	}
	set, grain, busy := tun.NewSet(taps...), grainOf(w.net), false
	behind := false // there are frames left to read
	for {
		now := w.now()
		sleep := mostSleep
		if next := w.net.Next(); next != monotime.Never {
			sleep = min(max(next.Sub(now), 0), mostSleep)
		}
		if busy && !behind { // more will have come when this has passed, and more be due
			if err := set.Sleep(grain); err != nil {
				return stopped(err)
			}
		}
		if busy {
			sleep = 0
		}
		if err := set.Wait(sleep); err != nil {
			return stopped(err)
		}
		busy, behind = false, false
		for w.net.Step(w.now()) { // to now, so that no frame enters before it came
			busy = true
		}
		for i, p := range w.ports {
			if set.Ready(i) {
				all, err := w.read(p)
				if err != nil {
					return err
				}
				busy, behind = true, behind || !all
			}
		}
	}
}

// stopped returns an error if it is not that of Stop.
func stopped(err error) error {
	if errors.Is(err, tun.ErrStopped) {
		return nil
	}
	return err
}

// mostSleep bounds a sleep, not that anything waited for it.
const mostSleep = time.Minute

func (w *wire) now() monotime.Time { return monotime.Time(time.Since(w.began)) }

// read has frames of a port enter the network, all at the network's time. It reports whether they
// were all.
func (w *wire) read(p *port) (all bool, err error) {
	for range batch {
		f := w.newFrame()
		n, ok, err := p.tap.TryRead(f)
		if !ok || err != nil {
			w.recycle(f)
			return true, err
		}
		if n < ethernetHeader {
			w.recycle(f)
			continue
		}
		w.enter(p, f[:n])
	}
	return false, nil
}

// enter has a frame enter the network: to the station that it names, or to all others.
func (w *wire) enter(p *port, f frame) {
	if w.stations[f.from()] != p && (len(w.stations) < maxStations ||
		w.stations[f.from()] != nil) {
		w.stations[f.from()] = p
	}
	if to := w.stations[f.to()]; to != nil && !f.isGroup() {
		if to == p {
			w.recycle(f)
			return
		}
		w.send(p, to, f)
		return
	}
	for _, to := range w.ports {
		if to != p {
			w.send(p, to, append(w.newFrame()[:0], f...))
		}
	}
	w.recycle(f)
}

func (w *wire) send(from, to *port, f frame) {
	if w.frames > w.mostFrames {
		w.tooMany++
		w.recycle(f)
		return
	}
	d := simnet.Datagram{Src: from.addr, Dst: to.addr, TOS: f.tos(), Payload: f,
		Bytes: len(f) + frameOverhead}
	d.SrcPort, d.DstPort = f.ports()
	w.net.Send(d)
}

// leave hands a frame to its host.
func (w *wire) leave(p *port, d *simnet.Datagram) {
	f := frame(d.Payload)
	if f.tos() != d.TOS {
		f.setECN(d.TOS & ecnMask)
	}
	_ = w.late.RecordValue(int64(w.now().Sub(w.net.Now()))) // refused beyond mostLate
	if p.tap.Write(f) != nil {                              // it is down, say
		w.refused++
	}
	w.recycle(f)
}

// newFrame returns memory for a frame. That in excess of maxFrameMemory does not stay.
func (w *wire) newFrame() frame {
	if n := len(w.free); n > 0 {
		f := w.free[n-1]
		w.free = w.free[:n-1]
		return f
	}
	w.frames++
	return make(frame, w.frameBytes)
}

func (w *wire) recycle(f frame) {
	if w.frames > w.mostFrames {
		w.frames--
		return
	}
	w.free = append(w.free, f[:cap(f)])
}
