// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"verbena/interop/guest"
)

// overRsockets returns the command for one of rdma-core's rsocket programs on a
// host: a guest has the system's librdmacm, our side the same program over ours.
func overRsockets(host guest.Host, command string) string {
	if _, isGuest := host.(*guest.Guest); isGuest {
		return "stdbuf -oL " + command
	}
	return "LD_LIBRARY_PATH=" + filepath.Join(programs, "lib") + " stdbuf -oL " + command
}

// isOurs tells our side of the LAN from a guest.
func isOurs(host guest.Host) bool {
	_, isGuest := host.(*guest.Guest)
	return !isGuest
}

// TestRstream streams data both ways, verified at both ends, between rdma-core's
// rsockets and ours.
func TestRstream(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, c := range []struct{ name, both, ours string }{
		{"nonblocking", "-C 200 -S 1000 -T v", ""},
		{"blocking", "-C 50 -S 100000 -T b -T v", ""}, // more than a buffer's half: credits, and halves that change
		{"async", "-C 200 -S 3000 -T b -T v", "-T n -T a"},
		{"large", "-C 5 -S 2000000 -T b -T v", ""},
		{"many", "-C 1000 -S 100 -T b -T v", ""}, // more messages than a queue: credits without a half
		{"without_inline", "-C 300 -S 64 -i 0 -T b -T v", ""},
		{"small_buffers", "-C 100 -S 5000 -B 3000 -T b -T v", ""},
		{"resolve", "-C 100 -S 1000 -T b -T r", ""},
		{"keepalive", "-C 100 -S 1000 -T b -k 1", ""},
	} {
		w.exchange(t, c.name, func(t *testing.T, p pair) { rstream(t, "rstream", p, p.server.IPv4(), c.both, c.ours) })
	}
	w.exchange(t, "IPv6", func(t *testing.T, p pair) {
		rstream(t, "rstream", p, p.server.IPv6(), "-C 100 -S 10000 -T b -T v", "")
	})
}

func TestRstreamBetweenGuests(t *testing.T) {
	newPeersWire(t).exchange(t, "blocking", func(t *testing.T, p pair) {
		rstream(t, "rstream", p, p.server.IPv4(), "-C 50 -S 100000 -T b -T v", "")
	})
}

// TestGoStreams has package rsocket exchange messages with rdma-core's rstream, which verifies
// them.
func TestGoStreams(t *testing.T) {
	const port, count = 7471, 100
	w := newWire(t, guest.UML)
	for _, length := range []int{64, 1000, 100000} {
		w.exchange(t, fmt.Sprintf("%d_bytes", length), func(t *testing.T, p pair) {
			ours := func(command string, length, count int) string {
				return fmt.Sprintf("%s -kind roce %s %v %d %d %d", filepath.Join(programs, "peer"), command, p.server.IPv4(), port, length, count)
			}
			theirs := fmt.Sprintf("stdbuf -oL rstream -p %d -I %d -C 1 -S %d -T b -T v ", port, count, length)
			if isOurs(p.server) {
				server := guest.Start(t, p.server, exchangeLimit, ours("echo", 0, 0))
				server.Expect("listening")
				client := guest.Start(t, p.client, exchangeLimit, theirs+fmt.Sprintf("-s %v", p.server.IPv4()))
				client.Succeed()
				client.Expect("custom")
				server.Succeed()
				server.Expect(fmt.Sprintf("echoed %d", 16+count*length))
				return
			}
			server := guest.Start(t, p.server, exchangeLimit, theirs+fmt.Sprintf("-b %v", p.server.IPv4()))
			server.Expect("name +bytes")
			client := guest.Start(t, p.client, exchangeLimit, ours("exchange", length, count))
			client.Succeed()
			client.Expect(fmt.Sprintf("exchanged %d", count))
			server.Succeed()
			server.Expect("custom")
		})
	}
}

// TestRiostream writes into the other end's memory: riomap(3), riowrite(3).
func TestRiostream(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, c := range []struct{ name, options string }{
		{"nonblocking", "-C 100 -S 1000 -T v"},
		{"blocking", "-C 20 -S 100000 -T b -T v"},
	} {
		w.exchange(t, c.name, func(t *testing.T, p pair) { rstream(t, "riostream", p, p.server.IPv4(), c.options, "") })
	}
}

// rstream runs rstream or riostream with options for both ends and some for
// ours alone.
func rstream(t *testing.T, program string, p pair, addr netip.Addr, both, ours string) {
	t.Helper()
	command := func(host guest.Host, options string) string {
		if isOurs(host) {
			options += " " + ours
		}
		return overRsockets(host, program+" "+options+" "+both)
	}
	server := guest.Start(t, p.server, exchangeLimit, command(p.server, fmt.Sprintf("-b %v", addr)))
	server.Expect("name +bytes") // it listens
	client := guest.Start(t, p.client, exchangeLimit, command(p.client, fmt.Sprintf("-s %v", addr)))
	client.Succeed()
	client.Expect("custom")
	server.Succeed()
	server.Expect("custom")
}

// text writes a file of some megabytes that no dissector takes for a protocol,
// where guests can read it.
func text(t *testing.T) string {
	t.Helper()
	lines := make([]byte, 0, 4<<20)
	for i := 0; len(lines) < 3<<20; i++ {
		lines = fmt.Appendf(lines, "%d\n", i)
	}
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, lines, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestRcopy copies a file.
func TestRcopy(t *testing.T) {
	w := newWire(t, guest.UML)
	source := text(t)
	w.exchange(t, "IPv4", func(t *testing.T, p pair) {
		copied := "/run/rcopied"
		if isOurs(p.server) {
			copied = filepath.Join(t.TempDir(), "rcopied")
		}
		server := guest.Start(t, p.server, exchangeLimit, overRsockets(p.server, "rcopy"))
		if isOurs(p.server) {
			server.Expect("waiting for connection")
		} else { // says so before it listens, and on a line that goes on
			guest.Run(t, p.server, exchangeLimit, "until rdma resource show cm_id | grep -q LISTEN; do sleep 0.02; done")
		}
		guest.Start(t, p.client, exchangeLimit, overRsockets(p.client, fmt.Sprintf("rcopy %s %v:%s", source, p.server.IPv4(), copied))).Succeed()
		server.Expect("closing...done")
		guest.Run(t, p.server, exchangeLimit, "cmp "+source+" "+copied)
	})
}

// preloaded returns the command for a sockets program on a host, over its
// side's preload library: rdma-core's or ours.
func preloaded(host guest.Host, command string) string {
	if isOurs(host) {
		lib := filepath.Join(programs, "lib")
		return fmt.Sprintf("LD_LIBRARY_PATH=%s LD_PRELOAD=%s/librspreload.so.1 stdbuf -oL %s", lib, lib, command)
	}
	return "LD_PRELOAD=/usr/lib/$(uname -m)-linux-gnu/rsocket/librspreload.so stdbuf -oL " + command
}

// TestPreloadedSockets has rstream use plain sockets, which the preload
// libraries make rsockets of: at once, or in the child that serves.
func TestPreloadedSockets(t *testing.T) {
	w := newWire(t, guest.UML)
	for _, c := range []struct{ name, environment, server string }{
		{"at_once", "", "-T s"},
		{"forked", "RDMAV_FORK_SAFE=1 ", "-T f"},
	} {
		for _, p := range w.pairs {
			t.Run(c.name+"/"+p.client.Name()+"_to_"+p.server.Name(), func(t *testing.T) {
				packets := w.captured(t, func() {
					const options = " -T b -C 100 -S 10000"
					server := guest.Start(t, p.server, exchangeLimit, c.environment+preloaded(p.server, fmt.Sprintf("rstream -b %v %s", p.server.IPv4(), c.server+options)))
					server.Expect("name +bytes")
					client := guest.Start(t, p.client, exchangeLimit, c.environment+preloaded(p.client, fmt.Sprintf("rstream -s %v -T s", p.server.IPv4())+options))
					client.Succeed()
					client.Expect("custom")
					server.Succeed()
				})
				if len(packets) < 1000 { // 2 MB by TCP, and no more than an attempt by RDMA
					t.Errorf("%d RoCEv2 packets: the data took another way", len(packets))
				}
			})
		}
	}
}

// TestPreloadedHTTP has curl over rdma-core's preload library fetch a file from
// Python's server over ours. Python's sockets are close-on-exec, which
// rdma-core's rsockets refuse: it cannot serve.
func TestPreloadedHTTP(t *testing.T) {
	w := newWire(t, guest.UML)
	source := text(t)
	for _, p := range w.pairs {
		if !isOurs(p.server) {
			continue
		}
		packets := w.captured(t, func() {
			server := guest.Start(t, p.server, exchangeLimit, preloaded(p.server,
				fmt.Sprintf("python3 -u -m http.server --bind %v --directory %s 8077", p.server.IPv4(), filepath.Dir(source))))
			server.Expect("Serving HTTP")
			guest.Start(t, p.client, exchangeLimit, preloaded(p.client,
				fmt.Sprintf("curl -sS -o /run/fetched http://%v:8077/text && cmp /run/fetched %s", p.server.IPv4(), source))).Succeed()
		})
		if len(packets) < 1000 {
			t.Errorf("%d RoCEv2 packets: the data took another way", len(packets))
		}
	}
}
