// SPDX-License-Identifier: BSD-2-Clause

package rdmacm_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"verbena/ib"
	"verbena/internal/stats"
	"verbena/internal/sys/rundir"
	"verbena/internal/testkit/loopback"
	"verbena/internal/testkit/rig"
	"verbena/rdmacm"
	"verbena/verbs"
)

// Another process of the user sees each queue pair, how its packets travel, and what is measured on
// the way. Rings and NTB links measure nothing.
func TestQueuePairsAreSeen(t *testing.T) {
	// An option, which changes nothing, makes sure that the host has no other options.
	plain := []verbs.Option{verbs.WithFaults("")}
	link := "10.99.0.1+10.99.0.2=shm:" + filepath.Join(t.TempDir(), "link")
	for _, c := range []struct {
		name     string
		kind     rdmacm.Kind
		addr     string
		options  []verbs.Option
		via      string
		measures bool
	}{
		{"RoCE within a host", rdmacm.RoCE, "127.0.0.1", plain, "shared-memory", false},
		{"RoCE", rdmacm.RoCE, "127.0.0.1", []verbs.Option{verbs.WithoutLocalPath()}, "udp", true},
		{"iWARP", rdmacm.IWARP, "127.0.0.1", plain, "tcp", true},
		{"TRP", rdmacm.TRP, "127.0.0.1", plain, "udp", true},
		{"NTB", rdmacm.NTB, "10.99.0.2", plain, "ntb", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.kind == rdmacm.NTB {
				if err := verbs.UseLinks(link + "," + link); err != nil {
					t.Fatal(err)
				}
				defer verbs.UseLinks("")
			}
			host := openAlone(t, c.options...)
			defer host.Close()
			client, server := connect(t, c.kind, c.addr)
			send(t, client, server)
			q, peer := lookAt(t, client.QP().QPN()), lookAt(t, server.QP().QPN())
			for c.measures && (q.Path == nil || q.Path.RTT == 0) { // one that was repeated measures nothing
				send(t, client, server)
				q = lookAt(t, client.QP().QPN())
			}
			if q.Type != "RC" || q.State != "RTS" || q.Via != c.via || peer.Via != c.via {
				t.Errorf("%+v, by %s at the peer; want RC in RTS by %s", q, peer.Via, c.via)
			}
			if c.kind != rdmacm.NTB && (q.Local != peer.Peer && c.kind != rdmacm.RoCE || q.Peer.Addr() != peer.Local.Addr() || !q.Peer.IsValid()) {
				t.Errorf("from %v to %v; the peer says from %v to %v", q.Local, q.Peer, peer.Local, peer.Peer)
			}
			if len(q.Counters) == 0 {
				t.Error("no counters")
			}
			switch p := q.Path; {
			case !c.measures && p != nil:
				t.Errorf("measured: %+v", *p)
			case c.measures && (p == nil || p.RTT <= 0 || p.MinRTT <= 0 || p.WindowBytes <= 0):
				t.Errorf("path %+v, want a round trip and a window", p)
			}
			for _, conn := range []*rdmacm.Conn{client, server} {
				if err := conn.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// openAlone opens the host once no connection of this process is left, not even one that is ending:
// options are refused until then.
func openAlone(t *testing.T, options ...verbs.Option) (host *verbs.Context) {
	t.Helper()
	rig.Until(t, "the connections before are gone, and the host with them", func() bool {
		var err error
		host, err = verbs.Open(loopback.Device(t), options...)
		if err != nil && !errors.Is(err, syscall.EBUSY) {
			t.Fatal(err)
		}
		return err == nil
	})
	return host
}

// connect connects two queue pairs of this process.
func connect(t *testing.T, k rdmacm.Kind, addr string) (client, server *rdmacm.Conn) {
	t.Helper()
	l, err := rdmacm.ListenAddr(addr+":0", &rdmacm.Options{Kind: k})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := make(chan error, 1)
	go func() {
		var err error
		server, err = l.Accept(t.Context())
		accepted <- err
	}()
	if client, err = rdmacm.Dial(t.Context(), l.Addr().String(), &rdmacm.Options{Kind: k}); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	return client, server
}

// send sends a message and waits for it.
func send(t *testing.T, from, to *rdmacm.Conn) {
	t.Helper()
	if _, err := to.QP().PostRecv(verbs.RecvWR{}); err != nil {
		t.Fatal(err)
	}
	if _, err := from.QP().PostSend(verbs.SendWR{Opcode: ib.WRSend, Flags: ib.SendSignaled}); err != nil {
		t.Fatal(err)
	}
	var wc [1]ib.WC
	for _, cq := range []*verbs.CQ{from.SendCQ, to.RecvCQ} {
		for n := 0; n == 0; {
			var err error
			if n, err = cq.Poll(wc[:]); err != nil || n == 1 && wc[0].Status != ib.WCSuccess {
				t.Fatal(wc[0].Status, err)
			}
		}
	}
}

// lookAt asks this process, as another would, for a queue pair.
func lookAt(t *testing.T, n ib.QPN) stats.QueuePair {
	t.Helper()
	dir, _ := rundir.Dir()
	all, err := stats.Collect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, d := range s.Devices {
			for _, q := range d.QueuePairs {
				if s.PID == os.Getpid() && q.QPN == uint32(n) {
					return q
				}
			}
		}
	}
	t.Fatalf("queue pair %v is not shown", n)
	return stats.QueuePair{}
}

// The objects of a connection are seen, and no longer after its end.
func TestObjectsAreSeen(t *testing.T) {
	host := openAlone(t, verbs.WithFaults(""))
	defer host.Close()
	client, server := connect(t, rdmacm.RoCE, "127.0.0.1")
	mr, err := client.RegMR(make([]byte, 5000), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, device := lookAtDevice(t, host.Info().Name)
	var pd stats.PD
	var region stats.MR
	for _, m := range device.MRs {
		if m.Length == uint64(len(mr.Bytes())) {
			region = m
		}
	}
	for _, p := range device.PDs {
		if p.PDN == region.PDN && p.Context == region.Context {
			pd = p
		}
	}
	if pd.Users != 2 || device.Regions != len(device.MRs) { // the queue pair, and the region
		t.Errorf("%+v, %+v", region, device.PDs)
	}
	if n := len(device.CQs); n < 2 || device.CQs[n-1].Users == 0 || device.CQs[n-1].Depth == 0 {
		t.Errorf("%+v", device.CQs)
	}
	established := 0
	for _, id := range s.Identifiers {
		if id.State == "established" && id.Device == device.Name && id.PortSpace == "TCP" && (id.QPN == uint32(client.QP().QPN()) || id.QPN == uint32(server.QP().QPN())) {
			established++
		}
	}
	if established != 2 {
		t.Errorf("identifiers %+v", s.Identifiers)
	}
	for _, conn := range []*rdmacm.Conn{client, server} {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	rig.Until(t, "nothing but the host is seen", func() bool {
		s, device = lookAtDevice(t, host.Info().Name)
		return len(s.Identifiers)+len(device.CQs)+len(device.PDs)+len(device.MRs) == 0
	})
}

// lookAtDevice asks this process, as another would, for a device.
func lookAtDevice(t *testing.T, name string) (stats.Snapshot, stats.Device) {
	t.Helper()
	dir, _ := rundir.Dir()
	all, err := stats.Collect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, d := range s.Devices {
			if s.PID == os.Getpid() && d.Name == name {
				return s, d
			}
		}
	}
	t.Fatalf("device %s is not shown", name)
	return stats.Snapshot{}, stats.Device{}
}
