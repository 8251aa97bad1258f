// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"verbena/internal/wire/iwarp"
	"verbena/interop/capture"
	"verbena/interop/guest"
)

// newSIWWire is newWire with the guest's siw0, the kernel's iWARP over TCP, in
// place of rxe0: where one interface has both, rdma_cm takes the first.
func newSIWWire(t *testing.T) wire { return overSIW(t, newWire(t, guest.UML)) }

// There is no pair of guests, as a READ between two siw now and then is not answered:
// nobody nudges them.
func overSIW(t *testing.T, w wire) wire {
	t.Helper()
	// The capture must show the packets of the wire: no segments for a device to cut.
	if out, err := exec.Command("ip", "link", "set", "br0", "gso_max_segs", "1").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, host := range []guest.Host{w.pairs[0].server, w.pairs[0].client} {
		if g, ok := host.(*guest.Guest); ok {
			guest.Run(t, g, exchangeLimit, "rdma link delete rxe0 && rdma link add siw0 type siw netdev eth0")
		}
	}
	return w
}

// iwarpPeer is peerProgram for iWARP; options are for our side.
func iwarpPeer(host guest.Host, options string) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return peerProgram(host)
	}
	return peerProgram(host) + " -kind iwarp" + options
}

// streams runs an exchange and returns the streams on the wire, judged.
func (w wire) streams(t *testing.T, exchange func()) []capture.Stream {
	t.Helper()
	c := capture.Start(t, w.tapped.Tap())
	exchange()
	streams := capture.JudgeIWARP(t, c.Stop(w.tapped.IPv4()))
	for i := range streams {
		if n := nudges(&streams[i]); n > 0 {
			t.Logf("no answer to the first message within 50 ms: nudged %d times", n)
		}
	}
	return streams
}

// nudges counts the WRITEs of no bytes by which an initiator of ours makes siw look at its socket
// again. As a responder siw overlooks bytes that come before it is ready
// (testdata/captures/siw-stall-first-read.pcap has it between two siw).
func nudges(s *capture.Stream) (n int) {
	for i, f := range s.FPDUs[0] {
		if f.Opcode == iwarp.RDMAWrite && len(f.Payload) == 0 && i > 0 {
			n++
		}
	}
	return n
}

// each runs an exchange of every pair as a subtest.
func (w wire) each(t *testing.T, name string, exchange func(t *testing.T, p pair)) {
	for _, p := range w.pairs {
		t.Run(fmt.Sprintf("%s/%s_to_%s", name, p.client.Name(), p.server.Name()), func(t *testing.T) { exchange(t, p) })
	}
}

// ours reports whether the client is on our side.
func (p pair) ours() bool {
	_, isGuest := p.client.(*guest.Guest)
	return !isGuest
}

// rpingServed is server.Succeed for a server that may be rdma-core's rping. That one
// destroys its event channel at the end while a thread of its own may be about to read it.
func rpingServed(server *guest.Command) {
	const race = "wait for RDMA_READ_ADV state 10"
	status, said := server.Wait()
	if status == 255 && strings.Contains(said, race) && strings.HasSuffix(strings.TrimSpace(said), "rdma_get_cm_event: Bad file descriptor") {
		return
	}
	server.Succeed()
}

func TestSIWRping(t *testing.T) {
	w := newSIWWire(t)
	for name, addr := range map[string]func(guest.Host) netip.Addr{"IPv4": guest.Host.IPv4, "IPv6": guest.Host.IPv6} {
		w.each(t, name, func(t *testing.T, p pair) {
			w.streams(t, func() {
				options := fmt.Sprintf(" -a %s -C 1000 -V -v", addr(p.server))
				server := guest.Start(t, p.server, exchangeLimit, rdmaTool(p.server, "rping", "rping --kind iwarp")+" -s -d"+options)
				server.Expect("rdma_listen")
				if p.ours() {
					guest.Start(t, p.server, exchangeLimit, "until rdma resource show cm_id | grep -q LISTEN; do sleep 0.02; done").Succeed()
				}
				guest.Start(t, p.client, exchangeLimit, rdmaTool(p.client, "rping", "rping --kind iwarp")+" -c"+options).Succeed()
				rpingServed(server)
			})
		})
	}
}

// siwOperate is operate over iWARP: op of the client, on a server that runs the
// peer's command serve. The client has said its first word when it returns.
func siwOperate(t *testing.T, p pair, serve, op string, bytes int, options string) (client, server *guest.Command) {
	t.Helper()
	command, argument, _ := strings.Cut(serve, " ")
	server = guest.Start(t, p.server, exchangeLimit, fmt.Sprintf("%s %s %v %d %d %d %s",
		iwarpPeer(p.server, options), command, p.addr(), peerPort, bytes, serverSeed, argument))
	server.Expect("listening")
	client = guest.Start(t, p.client, exchangeLimit, fmt.Sprintf("%s connect %v %d %d %d %s",
		iwarpPeer(p.client, options), p.addr(), peerPort, bytes, clientSeed, op))
	client.Expect("(?m)^(wc|rejected|flooding)")
	return client, server
}

// wantStatus waits for the client's completion.
func wantStatus(t *testing.T, client *guest.Command, status ...string) {
	t.Helper()
	wc := client.Expect(`(?m)^wc (.*) after`)
	if !slices.ContainsFunc(status, func(s string) bool { return strings.EqualFold(s, wc[1]) }) {
		t.Fatalf("the completion's status is %q, want %q", wc[1], status)
	}
}

// TestSIWMemory moves bytes every way there is, of sizes about the pad and the
// segment size.
func TestSIWMemory(t *testing.T) {
	testSIWMemory(t, newSIWWire(t), []int{1, 2, 3, 4, 255, 1024, 1422, 1423, 4097, 65536, 1<<20 - 1, 8 << 20})
}

func TestSIWMemoryIPv6(t *testing.T) {
	testSIWMemory(t, newSIWWire(t).overIPv6(), []int{1, 4097, 8 << 20})
}

func testSIWMemory(t *testing.T, w wire, sizes []int) {
	for _, c := range []struct {
		op, serve string
		seed      int // of the data
		to        string
	}{
		{"write", "serve", clientSeed, "server"}, {"read", "serve", serverSeed, "client"}, {"send", "receive now", clientSeed, "server"},
	} {
		w.each(t, c.op, func(t *testing.T, p pair) {
			w.streams(t, func() {
				for _, size := range sizes {
					client, server := siwOperate(t, p, c.serve, c.op, size, "")
					wantStatus(t, client, "success")
					at := map[string]memory{"client": memoryOf(t, client), "server": memoryOf(t, server)}
					if want := sum(pattern(size, c.seed)); at[c.to].sum != want {
						t.Errorf("%s of %d bytes: the sum is %s, want %s", c.op, size, at[c.to].sum, want)
					}
					client.Succeed()
					server.Succeed()
				}
			})
		})
	}
}

// TestSIWSendWithInvalidate has a SEND take a key away: a READ with it then is
// an error at both ends.
func TestSIWSendWithInvalidate(t *testing.T) {
	w := newSIWWire(t)
	w.each(t, "sendinv", func(t *testing.T, p pair) {
		streams := w.streams(t, func() {
			client, server := siwOperate(t, p, "receive bound", "latesendinv", 3000, "")
			got := server.Expect("(?m)^received .*")[0]
			want := "received success opcode 128 bytes 3000 imm 00000000 invalidated "
			if !p.ours() { // siw says nothing of the key
				want += "1"
			}
			if !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			wantStatus(t, client, "success")
			if then := client.Expect(`(?m)^then (.*)$`); strings.EqualFold(then[1], "success") {
				t.Errorf("a READ with the key invalidated: %q", then[1])
			}
			if m := memoryOf(t, server); m.sum != sum(pattern(3000, clientSeed)) {
				t.Error("the message is not what the client sent")
			}
			client.Wait()
			server.Wait()
		})
		if !slices.ContainsFunc(streams[len(streams)-1].FPDUs[0], func(f capture.FPDU) bool { return f.Opcode == iwarp.SendInvalidate && f.Last }) {
			t.Error("no SEND with Invalidate")
		}
		wantTerminate(t, &streams[len(streams)-1], 1, iwarp.RDMAPInvalidSTag)
	})
}

// wantTerminate wants one end to have said an error, and the other none.
func wantTerminate(t *testing.T, s *capture.Stream, end int, want ...iwarp.TermError) {
	t.Helper()
	e, ok := s.Terminate(end)
	if !ok || !slices.Contains(want, e) {
		t.Errorf("end %d sent Terminate %v (%v), want one of %v", end, e, ok, want)
	}
	if e, ok := s.Terminate(1 - end); ok {
		t.Errorf("end %d sent Terminate %v", 1-end, e)
	}
}

func TestSIWReject(t *testing.T) {
	w := newSIWWire(t)
	w.each(t, "reject", func(t *testing.T, p pair) {
		streams := w.streams(t, func() {
			client, server := siwOperate(t, p, "refuse", "read", 64, "")
			client.Expect(`(?m)^rejected not today`)
			server.Succeed()
		})
		if r := streams[len(streams)-1].SetUp[1]; !r.Reply || !r.Reject || string(r.PrivateData) != "not today" {
			t.Errorf("the Reply is %+v", r)
		}
	})
}

// TestSIWBadSTag wants the answer at once, as a Terminate: the READ fails, while
// a WRITE is done when its buffer is free and the stream ends behind it, unless
// the Terminate is faster.
func TestSIWBadSTag(t *testing.T) {
	w := newSIWWire(t)
	for op, status := range map[string][]string{
		"badread":  {"remote access error", "work request flushed error"},          // ours, siw's
		"badwrite": {"success", "remote access error", "local QP operation error"}, // both; ours, siw's where the Terminate is faster
	} {
		w.each(t, op, func(t *testing.T, p pair) {
			streams := w.streams(t, func() {
				client, server := siwOperate(t, p, "serve", op, 4096, "")
				want := status
				if p.ours() { // the last is siw's alone
					want = status[:len(status)-1]
				}
				wantStatus(t, client, want...)
				server.Expect("disconnected")
				if m := memoryOf(t, server); m.sum != sum(pattern(4096, serverSeed)) {
					t.Error("the server's memory has changed")
				}
				client.Wait()
				server.Wait()
			})
			if op == "badread" {
				wantTerminate(t, &streams[len(streams)-1], 1, iwarp.RDMAPInvalidSTag)
			} else {
				wantTerminate(t, &streams[len(streams)-1], 1, iwarp.DDPInvalidSTag)
			}
		})
	}
}

// TestSIWHasNoExtensions: operations that siw lacks fail at once with us. With siw, trying them
// does not spoil the connection.
func TestSIWHasNoExtensions(t *testing.T) {
	w := newSIWWire(t)
	w.pairs = slices.DeleteFunc(w.pairs, func(p pair) bool { return !p.ours() }) // its own library refuses them
	for _, op := range []string{"writeimm", "cas", "fadd"} {
		w.each(t, op, func(t *testing.T, p pair) {
			streams := w.streams(t, func() {
				client, server := siwOperate(t, p, "serve", op, 4096, "")
				wantStatus(t, client, "local QP operation error")
				client.Wait()
				server.Wait()
			})
			if e, ok := streams[len(streams)-1].Terminate(1); ok {
				t.Errorf("siw was asked, and sent Terminate %v", e)
			}
		})
	}
}

// TestSIWPeerKilled kills one side while the client writes, and wants the
// other to find out.
func TestSIWPeerKilled(t *testing.T) {
	w := newSIWWire(t)
	for _, victim := range []string{"client", "server"} {
		w.each(t, victim, func(t *testing.T, p pair) {
			w.streams(t, func() {
				client, server := siwOperate(t, p, "serve", "flood", 1<<16, "")
				client.Expect("flooding")
				host := p.client
				if victim == "server" {
					host = p.server
				}
				guest.Run(t, host, exchangeLimit, "pkill -9 -x '(rdmacore-)?peer'")
				if victim == "client" {
					server.Expect("disconnected")
					server.Wait()
					return
				}
				if wc := client.Expect(`(?m)^wc (.*) after`); strings.EqualFold(wc[1], "success") {
					t.Errorf("status %q", wc[1])
				}
				client.Wait()
			})
		})
	}
}

// TestSIWWithoutCRC and the others: the two agree on CRCs if we ask for them,
// as siw never does by itself.
func TestSIWWithoutCRC(t *testing.T) {
	w := newSIWWire(t)
	for options, crc := range map[string]bool{"": true, " -nocrc": false} {
		w.each(t, fmt.Sprintf("CRC_%v", crc), func(t *testing.T, p pair) {
			streams := w.streams(t, func() {
				for _, op := range []string{"write", "read"} {
					client, server := siwOperate(t, p, "serve", op, 100_000, options)
					wantStatus(t, client, "success")
					client.Succeed()
					server.Succeed()
				}
			})
			for _, s := range streams {
				if got := s.SetUp[0].CRC || s.SetUp[1].CRC; got != crc {
					t.Errorf("CRCs: %v", got)
				}
			}
		})
	}
}
