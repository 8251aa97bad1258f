// SPDX-License-Identifier: BSD-2-Clause

package core

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"verbena/ib"
	"verbena/internal/device"
	"verbena/internal/engine"
	"verbena/internal/stats"
	"verbena/internal/sys/entropy"
	"verbena/internal/sys/faultcap"
	"verbena/internal/sys/recorder"
	"verbena/internal/transport"
	"verbena/internal/version"
	"verbena/internal/wire/pcap"
)

// host is shared by all contexts of a process: the engine with its sockets and its slot of the
// queue pair numbers.
type host struct {
	engine   *engine.Engine
	options  Options // immutable
	log      Log     // immutable: of the options, and the one that goes into the capture
	faults   faultcap.Faults
	captures bool
	recorder *recorder.Recorder // immutable: of the newest packets; nil without
	// atomic: an attempt to connect has failed
	unconnected atomic.Bool
	refs        int          // guarded by hostMu
	undo        func() error // undoes the options
	flush       func() error // writes the capture out
	forget      func()       // ends device.KeepInterfaces
	stats       *stats.Server
	retired     atomic.Bool
	xrc         xrcHost
	numbered    sync.Map // ib.QPN to *QP; for an XRC target to any of its QPs

	mu      sync.Mutex
	devices []openDevice // guarded by mu: all that were opened
	// guarded by mu, and changed under hostMu too: those open, by device
	links    map[string]*ntbLink
	contexts map[*Context]struct{} // guarded by mu: those open

	numbers atomic.Uint32 // given to contexts and to queues without another number
	// identifiers returns those of the connection manager; nil without one
	identifiers atomic.Pointer[func() []stats.Identifier]
}

// openDevice is a device and the counts of its queue pairs.
type openDevice struct {
	info     device.Info
	counters *engine.DeviceCounters
}

var (
	hostMu  sync.Mutex
	theHost *host                // guarded by hostMu
	serving atomic.Pointer[host] // theHost, for Leave, which takes no lock
)

// acquireHost returns the process's host for a device of a kind, starting it for
// the first context.
func acquireHost(k device.Kind, opts *Options) (*host, error) {
	hostMu.Lock()
	defer hostMu.Unlock()
	if theHost != nil {
		if err := theHost.options.holds(opts); err != nil {
			return nil, err
		}
		if err := theHost.takes(k); err != nil {
			return nil, err
		}
		theHost.refs++
		return theHost, nil
	}
	h := &host{refs: 1, links: map[string]*ntbLink{}, contexts: map[*Context]struct{}{}}
	if err := h.start(k, opts); err != nil {
		return nil, err
	}
	h.forget = device.KeepInterfaces()
	// `verbena stat` asks; without it everything else works.
	h.stats, _ = stats.Serve("", h.engine.Name(), h.snapshot, h.packets())
	if h.stats != nil {
		h.engine.OnStir(h.stats.Stirred)
	}
	theHost = h
	serving.Store(h)
	return h, nil
}

// Leave removes this process from the directory where processes of its user meet, without waiting.
func Leave() {
	h := serving.Load()
	if h == nil {
		return
	}
	h.engine.Withdraw()
	if h.stats != nil {
		h.stats.Withdraw()
	}
}

// Retire leaves the counters of this process to its ports, after Leave.
func Retire() {
	if h := serving.Load(); h != nil {
		h.retire()
	}
}

// retire leaves the last snapshot, and the counters to the ports. Counts that it cannot write are
// lost: nothing else needs them.
func (h *host) retire() {
	if h.stats != nil && h.retired.CompareAndSwap(false, true) {
		_ = h.stats.Retire(h.brief())
	}
}

// PortCounts returns the counts of the device's port by name: the sums over processes of this user
// that have it open, or have closed it.
func (c *Context) PortCounts() map[string]uint64 {
	return stats.Port("", c.host.engine.Name(), c.info.Name)
}

// packets returns the function that returns the newest packets for `verbena stat dump`, nil
// without a ring.
func (h *host) packets() func() *pcap.Contents {
	if h.recorder == nil {
		return nil
	}
	return h.recorder.Hold
}

// FlushCapture writes out the packets that WithCapture has taken so far, or waits for the files of
// a ring that were asked for. It is for a process that is about to end without closing its
// contexts.
func FlushCapture() error {
	hostMu.Lock()
	defer hostMu.Unlock()
	if theHost == nil {
		return nil
	}
	return theHost.flush()
}

// takes refuses a device to which the process's options cannot be applied.
func (h *host) takes(k device.Kind) error {
	if h.captures && !k.HasPackets() {
		return invalid("capture", "an NTB link has no packets to capture")
	}
	return faultsError(k.TakesFaults(h.faults))
}

// counters returns the counters of a device's queue pairs.
func (h *host) counters(info device.Info) *engine.DeviceCounters {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.devices {
		if d.info.Name == info.Name {
			return d.counters
		}
	}
	d := openDevice{info, engine.NewDeviceCounters(transport.Of(info.Kind).CounterNames())}
	h.devices = append(h.devices, d)
	return d.counters
}

// snapshot is this process's answer to `verbena stat`.
func (h *host) snapshot() stats.Snapshot {
	s := h.brief()
	for i := range s.Devices {
		h.objects(&s.Devices[i])
	}
	if list := h.identifiers.Load(); list != nil {
		s.Identifiers = (*list)()
	}
	return s
}

// brief returns the snapshot with counters and queue pairs only.
func (h *host) brief() stats.Snapshot {
	s := stats.Snapshot{PID: os.Getpid(), Command: filepath.Base(os.Args[0]),
		Version: version.String(), Time: time.Now(), Devices: h.counted()}
	if h.recorder != nil {
		s.Ring = h.recorder.Bytes()
	}
	for i := range s.Devices {
		s.Devices[i].QueuePairs = h.queuePairs(s.Devices[i].Name)
	}
	return s
}

// Vars returns this process's snapshot, nil while no device is open.
func Vars() any {
	if h := serving.Load(); h != nil {
		return h.snapshot()
	}
	return nil
}

// counted returns the devices with their counters, and no queue pairs.
func (h *host) counted() (list []stats.Device) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.devices {
		dev := stats.Device{Name: d.info.Name, Kind: string(d.info.Kind), NetDev: d.info.NetDev}
		if l := h.links[d.info.Name]; l != nil {
			dev.GUID, dev.Active = uint64(l.info.GUID), l.Up()
		}
		for _, c := range h.engine.Counters(d.counters) {
			dev.Counters = append(dev.Counters, stats.Counter(c))
		}
		list = append(list, dev)
	}
	return list
}

// queuePairs returns the queue pairs of a device.
func (h *host) queuePairs(device string) []stats.QueuePair {
	var all []*QP
	h.numbered.Range(func(_, v any) bool {
		if q := v.(*QP); q.ctx.info.Name == device {
			all = append(all, q)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *QP) int { return cmp.Compare(a.QPN(), b.QPN()) })
	list := make([]stats.QueuePair, len(all))
	for i, q := range all {
		list[i] = q.look()
	}
	return list
}

// look returns the queue pair as `verbena stat` shows it.
func (q *QP) look() stats.QueuePair {
	a, r, counts := q.conn.Look()
	s := stats.QueuePair{QPN: uint32(q.QPN()), Type: q.init.Type.String(), State: a.State.String(),
		PDN: q.domain(), Via: string(r.Via), Local: r.Local, Peer: r.Peer,
		PeerQPN: uint32(a.DestQPN), SQPSN: uint32(a.SQPSN), RQPSN: uint32(a.RQPSN), Path: r.Path,
		Flow:     r.Flow,
		Counters: []stats.Counter{}}
	if a.PathMigState != ib.MigMigrated {
		s.Migration = a.PathMigState.String()
	}
	if q.init.SRQ != nil {
		s.SRQN = q.init.SRQ.number
	}
	if a.PathMTU != 0 {
		s.PathMTU = a.PathMTU.Bytes()
	}
	for _, c := range counts {
		s.Counters = append(s.Counters, stats.Counter(c))
	}
	q.conn.Lock()
	defer q.conn.Unlock()
	s.Sends = q.sq.Len()
	switch {
	case q.rq != nil:
		s.Recvs = q.rq.Len()
	case q.init.Outside != nil:
		s.Recvs = q.init.Outside.Len()
	}
	return s
}

// domain returns the number of the queue pair's PD, 0 if it has none.
func (q *QP) domain() uint32 {
	if q.pd == nil {
		return 0
	}
	return uint32(q.pd.num)
}

func (h *host) release() error {
	hostMu.Lock()
	defer hostMu.Unlock()
	if h.refs--; h.refs > 0 {
		return nil
	}
	theHost = nil
	serving.Store(nil)
	if h.stats != nil {
		h.stats.Close()
	}
	h.retire()
	h.forget()
	return errors.Join(h.engine.Close(), h.undo())
}

// randomKey is the source of memory keys, which peers must not be able to
// guess.
func randomKey() uint32 { return uint32(entropy.Uint64()) }
