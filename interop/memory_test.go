// SPDX-License-Identifier: BSD-2-Clause

//go:build linux && interop

package interop

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"verbena/internal/wire/roce"
	"verbena/interop/guest"
)

// messageSizes in bytes, about the pad, the path MTU of 1024 and its multiples.
var messageSizes = []int{1, 2, 3, 4, 7, 64, 255, 256, 1023, 1024, 1025, 2048, 4097, 65536, 1<<20 - 1, 8 << 20}

// Seeds of the patterns that the two memories begin with.
const (
	serverSeed = 1
	clientSeed = 2
)

func TestMemory(t *testing.T) { testMemory(t, newWire(t, guest.UML), messageSizes) }

func TestMemoryIPv6(t *testing.T) {
	testMemory(t, newWire(t, guest.UML).overIPv6(), []int{1, 1024, 4097, 8 << 20})
}

func TestMemoryBetweenGuests(t *testing.T) { testMemory(t, newPeersWire(t), messageSizes) }

func testMemory(t *testing.T, w wire, sizes []int) {
	w.exchange(t, "WRITE", func(t *testing.T, p pair) {
		for _, size := range sizes {
			r := operate(t, p, "write", size, serverSeed, clientSeed)
			r.expect(t, "success")
			if want := sum(pattern(size, clientSeed)); r.server.sum != want {
				t.Errorf("WRITE of %d bytes: the target's sum is %s, want %s", size, r.server.sum, want)
			}
		}
	})
	w.exchange(t, "READ", func(t *testing.T, p pair) {
		for _, size := range sizes {
			r := operate(t, p, "read", size, serverSeed, clientSeed)
			r.expect(t, "success")
			if want := sum(pattern(size, serverSeed)); r.client.sum != want {
				t.Errorf("READ of %d bytes: the sum of what was read is %s, want %s", size, r.client.sum, want)
			}
		}
	})
	w.exchange(t, "compare-and-swap", func(t *testing.T, p pair) {
		before := firstWord(serverSeed)
		r := operate(t, p, "cas", 64, serverSeed, serverSeed)
		r.expect(t, "success")
		r.expectWords(t, "the words are equal", atomicOperand, before)
		r = operate(t, p, "cas", 64, serverSeed, clientSeed)
		r.expect(t, "success")
		r.expectWords(t, "the words differ", before, before)
	})
	w.exchange(t, "fetch-and-add", func(t *testing.T, p pair) {
		before := firstWord(serverSeed)
		r := operate(t, p, "fadd", 64, serverSeed, clientSeed)
		r.expect(t, "success")
		r.expectWords(t, "fetch-and-add", before+atomicOperand, before)
	})
}

// TestReadWithBadRKey wants the answer at once: the request goes out once, and
// the NAK that comes back ends it.
func TestReadWithBadRKey(t *testing.T) { testReadWithBadRKey(t, newWire(t, guest.UML)) }

func TestReadWithBadRKeyIPv6(t *testing.T) {
	testReadWithBadRKey(t, newWire(t, guest.UML).overIPv6())
}

func TestReadWithBadRKeyBetweenGuests(t *testing.T) { testReadWithBadRKey(t, newPeersWire(t)) }

func testReadWithBadRKey(t *testing.T, w wire) {
	for _, p := range w.pairs {
		t.Run(p.client.Name()+"_to_"+p.server.Name(), func(t *testing.T) {
			var r result
			packets := w.captured(t, func() { r = operate(t, p, "badread", 4096, serverSeed, clientSeed) })
			r.expect(t, "remote access error")
			if want := sum(pattern(4096, clientSeed)); r.client.sum != want {
				t.Errorf("the memory to read into has changed")
			}
			if r.after > answerLimit {
				t.Errorf("the error took %v: nothing short of a time-out takes that long", r.after)
			}
			requests, answers := 0, []roce.Syndrome{}
			for _, packet := range packets {
				switch packet.Opcode {
				case roce.RCRDMAReadRequest:
					requests++
				case roce.RCAcknowledge, roce.RCRDMAReadResponseFirst, roce.RCRDMAReadResponseOnly:
					answers = append(answers, packet.AETH.Syndrome.NAK())
				}
			}
			want := []roce.Syndrome{roce.NAKRemoteAccess}
			if requests != 1 || !slices.Equal(answers, want) {
				t.Errorf("%d READ requests, answers %#x; want 1 and %#x", requests, answers, want)
			}
		})
	}
}

// answerLimit is far above a round trip of these guests. It is below the local ACK timeout, some
// 500 ms, of a connection that the CM makes.
const answerLimit = 200 * time.Millisecond

// atomicOperand is the operand of peer's atomics: to add, or to put there.
const atomicOperand = 5

// memory is one side's report of its memory at the end.
type memory struct {
	sum  string
	word uint64
}

// result is the two peers' report of an operation.
type result struct {
	status         string        // of the completion
	after          time.Duration // from posting to completion
	client, server memory
}

// peerPort is the RDMA port of peer.
const peerPort = 7471

// operate has the client do an operation of peer on bytes of memory that the
// server offers.
func operate(t *testing.T, p pair, op string, bytes, serverSeed, clientSeed int) (r result) {
	t.Helper()
	addr := p.addr()
	server := guest.Start(t, p.server, exchangeLimit, fmt.Sprintf("%s serve %v %d %d %d",
		peerProgram(p.server), addr, peerPort, bytes, serverSeed))
	server.Expect("listening")
	client := guest.Start(t, p.client, exchangeLimit, fmt.Sprintf("%s connect %v %d %d %d %s",
		peerProgram(p.client), addr, peerPort, bytes, clientSeed, op))
	wc := client.Expect(`(?m)^wc (.*) after (\d+) us`)
	r.status = wc[1]
	microseconds, err := strconv.Atoi(wc[2])
	if err != nil {
		t.Fatal(err)
	}
	r.after = time.Duration(microseconds) * time.Microsecond
	r.client, r.server = memoryOf(t, client), memoryOf(t, server)
	client.Wait()
	server.Succeed()
	return r
}

func memoryOf(t *testing.T, c *guest.Command) memory {
	t.Helper()
	match := c.Expect(`(?m)^sum ([0-9a-f]{16})\nword ([0-9a-f]{16})`)
	word, err := strconv.ParseUint(match[2], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return memory{match[1], word}
}

func (r result) expect(t *testing.T, status string) {
	t.Helper()
	if !strings.EqualFold(r.status, status) {
		t.Fatalf("the completion's status is %q, want %q", r.status, status)
	}
}

// expectWords checks the word at the server, and the one that the client got.
func (r result) expectWords(t *testing.T, when string, server, client uint64) {
	t.Helper()
	if r.server.word != server || r.client.word != client {
		t.Errorf("%s: the word there is %#x, want %#x; the one that came back is %#x, want %#x",
			when, r.server.word, server, r.client.word, client)
	}
}

// pattern returns the first contents of peer's memory.
func pattern(bytes, seed int) []byte {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte((uint32(i) + uint32(seed)) * 2654435761 >> 24)
	}
	return b
}

func firstWord(seed int) uint64 { return binary.LittleEndian.Uint64(pattern(8, seed)) }

func sum(b []byte) string {
	h := fnv.New64a()
	h.Write(b)
	return fmt.Sprintf("%016x", h.Sum64())
}
