// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package cabitest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/wire/cm"
	"verbena/internal/wire/iwarp"
	"verbena/internal/wire/trp"
)

// TestFloodOfManagers floods the listener of a program with limits of memory and descriptors, while
// it has a session: forged requests, half handshakes, messages of unknown connections, noise. The
// session goes on, no byte around its memory changes, the program hardly grows, its application
// gets few requests, and the next peer connects.
func TestFloodOfManagers(t *testing.T) {
	if _, here := newNetwork(t); !here {
		return
	}
	for kind, flood := range map[string]func(*testing.T, *rand.Rand, uint16){"roce": floodREQs, "iwarp": floodStreams, "trp": floodSetups} {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("VERBENA_DEVICES", kind+"_d0")
			f := startFlooded(t, "flood_cm", "192.0.2.1")
			start := time.Now()
			flood(t, rand.New(rand.NewPCG(1, 2)), uint16(f.num))
			t.Logf("flooded for %v", time.Since(start))
			if heard := f.finish(); heard > mayHear[kind] {
				t.Errorf("the application heard of %d strangers, more than %d", heard, mayHear[kind])
			} else {
				t.Logf("the application heard of %d strangers", heard)
			}
		})
	}
}

// mayHear bounds the requests that an application gets: none for RoCE, as no peer answers; for
// iWARP one per TCP connection; for TRP a few of clients like urdma.
var mayHear = map[string]int{"roce": 0, "iwarp": streams, "trp": 8}

const (
	requests = 5000 // datagrams of each kind
	streams  = 600  // connections, more than a program may have descriptors
)

var noise = make([]byte, 300)

// floodREQs sends well-formed REQs and SIDR_REQs of peers that do not exist, and all other messages
// with random ids.
func floodREQs(t *testing.T, r *rand.Rand, port uint16) {
	s := newStranger(t)
	from, to := ib.GIDFromAddr(netip.MustParseAddr("192.0.2.3")), ib.GIDFromAddr(netip.MustParseAddr("192.0.2.1"))
	service := cm.NewServiceID(cm.PortSpaceTCP, port)
	header := cm.IPHeader{Port: 9, Src: netip.MustParseAddr("192.0.2.3"), Dst: netip.MustParseAddr("192.0.2.1")}.Append(nil)
	for i := range requests {
		req := cm.REQ{
			LocalCommID: r.Uint32(), ServiceID: service, LocalCAGUID: ib.GUID(r.Uint64()), LocalQPN: ib.QPN(r.Uint32N(1<<24-16) + 8),
			Service: cm.ServiceRC, PKey: ib.DefaultPKey, PathMTU: ib.MTU1024, RemoteResponseTimeout: 31, LocalResponseTimeout: 31, MaxCMRetries: 15,
			RetryCount: 7, RNRRetryCount: 7, Primary: cm.Path{LocalGID: from, RemoteGID: to, HopLimit: 64, ACKTimeout: 31},
		}
		copy(req.PrivateData[:], header)
		s.send(toQP1(req.Append(cm.NewHeader(cm.AttrREQ, r.Uint64()).Append(nil))))
		for _, attr := range []cm.Attribute{cm.AttrMRA, cm.AttrREJ, cm.AttrREP, cm.AttrRTU, cm.AttrDREQ, cm.AttrDREP, cm.AttrSIDRREQ, cm.AttrSIDRREP, cm.AttrLAP}[i%9 : i%9+1] {
			b := cm.NewHeader(attr, r.Uint64()).Append(nil)
			for len(b) < cm.MADSize {
				b = append(b, byte(r.Uint32()))
			}
			s.send(toQP1(b))
		}
		if i%250 == 249 {
			s.settle()
		}
	}
}

// floodStreams connects, then sends nothing, half a request, a whole one, or noise.
func floodStreams(t *testing.T, r *rand.Rand, port uint16) {
	request := iwarp.MPAFrame{CRC: true, Revision: 1, PrivateData: make([]byte, 40)}.Append(nil)
	failed := 0
	for i := range streams {
		c, err := net.DialTimeout("tcp4", fmt.Sprintf("192.0.2.1:%d", port), 50*time.Millisecond)
		if err != nil {
			if failed++; failed == 10 { // there is no room for more
				return
			}
			continue
		}
		switch i % 4 {
		case 1:
			c.Write(request[:7])
		case 2:
			c.Write(request)
		case 3:
			c.Write(noise)
		}
		if i%3 == 0 {
			c.Close()
		} else {
			t.Cleanup(func() { c.Close() })
		}
	}
}

// floodSetups sends Requests of peers that do not answer, and noise.
func floodSetups(t *testing.T, r *rand.Rand, port uint16) {
	to := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port)
	for range 16 {
		c, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.3:0")))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range requests / 16 {
			p := trp.Packet{Header: trp.Header{Opcode: trp.Request, AckPSN: trp.PSN(r.Uint32N(64))}, Setup: trp.Setup{IRD: 1, ORD: 1}}
			c.WriteToUDPAddrPort(p.Append(nil), to)
			binary.NativeEndian.PutUint32(noise, r.Uint32())
			c.WriteToUDPAddrPort(noise[:r.IntN(len(noise))], to)
		}
	}
}
