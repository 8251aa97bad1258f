// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"verbena/ib"
	"verbena/internal/wire/roce"
	"verbena/interop/guest"
)

// TestMessages checks the fields of a message's completion: immediate data, and the key that was
// invalidated. Each is sent before a receive is posted, and so meets an RNR NAK first.
func TestMessages(t *testing.T) { testMessages(t, newWire(t, guest.UML)) }

func TestMessagesBetweenGuests(t *testing.T) { testMessages(t, newPeersWire(t)) }

// receiveDelay is the number of milliseconds from the connection until the receiver is ready:
// longer than a guest takes to send.
const receiveDelay = 300

func testMessages(t *testing.T, w wire) {
	const immediate = 0x12345678
	for _, c := range []struct {
		op          string
		bytes       int
		opcode      ib.WCOpcode
		imm         uint32
		invalidated int
		last        roce.Opcode // of the message's last packet
	}{
		{"sendimm", 3000, ib.WCRecv, immediate, 0, roce.RCSendLastImm},
		{"sendimm", 100, ib.WCRecv, immediate, 0, roce.RCSendOnlyImm},
		{"writeimm", 3000, ib.WCRecvRDMAWithImm, immediate, 0, roce.RCRDMAWriteLastImm},
		{"writeimm", 100, ib.WCRecvRDMAWithImm, immediate, 0, roce.RCRDMAWriteOnlyImm},
		{"sendinv", 3000, ib.WCRecv, 0, 1, roce.RCSendLastInvalidate},
		{"sendinv", 100, ib.WCRecv, 0, 1, roce.RCSendOnlyInvalidate},
	} {
		for _, p := range w.pairs {
			t.Run(fmt.Sprintf("%s/%d/%s_to_%s", c.op, c.bytes, p.client.Name(), p.server.Name()), func(t *testing.T) {
				packets := w.captured(t, func() {
					server := guest.Start(t, p.server, exchangeLimit, fmt.Sprintf("%s receive %v %d %d %d %d",
						peerProgram(p.server), p.addr(), peerPort, c.bytes, serverSeed, receiveDelay))
					server.Expect("listening")
					client := guest.Start(t, p.client, exchangeLimit, fmt.Sprintf("%s connect %v %d %d %d %s",
						peerProgram(p.client), p.addr(), peerPort, c.bytes, clientSeed, c.op))
					got := server.Expect("(?m)^received .*")[0]
					want := fmt.Sprintf("received success opcode %d bytes %d imm %08x invalidated %d", c.opcode, c.bytes, c.imm, c.invalidated)
					if got != want {
						t.Errorf("%q, want %q", got, want)
					}
					if wc := client.Expect(`(?m)^wc (.*) after`); !strings.EqualFold(wc[1], "success") {
						t.Errorf("the completion's status is %q", wc[1])
					}
					if c.invalidated != 0 {
						if then := client.Expect(`(?m)^then (.*)$`); !strings.EqualFold(then[1], "remote access error") {
							t.Errorf("a READ with the key invalidated: %q", then[1])
						}
					}
					if m := memoryOf(t, server); m.sum != sum(pattern(c.bytes, clientSeed)) {
						t.Error("the message is not what the client sent")
					}
					client.Wait()
					server.Succeed()
				})
				notReady, sent := 0, 0
				for _, packet := range packets {
					if packet.Info.HasAETH && packet.AETH.Syndrome.Kind() == roce.KindRNRNAK {
						notReady++
					}
					if packet.Opcode == c.last {
						sent++
					}
				}
				if notReady == 0 || sent < 1 {
					t.Errorf("%d RNR NAKs, %v %d times", notReady, c.last, sent)
				}
			})
		}
	}
}
