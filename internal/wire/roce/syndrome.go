// SPDX-License-Identifier: BSD-2-Clause

package roce

import (
	"fmt"
	"sort"
	"time"
)

// Syndrome is AETH.Syndrome: reserved (1) | kind (2) | value (5), where value
// is a credit code, an RNR timer code or a NAK code by its kind.
//
// Spec: IBTA vol. 1, 9.7.5.2.
type Syndrome uint8

// NAK syndromes. Spec: IBTA vol. 1, 9.7.5.2.2 NAK codes.
const (
	// a request packet is missing: send again from the PSN named
	NAKPSNSequence       Syndrome = 0x60
	NAKInvalidRequest    Syndrome = 0x61
	NAKRemoteAccess      Syndrome = 0x62
	NAKRemoteOperational Syndrome = 0x63
	NAKInvalidRD         Syndrome = 0x64
)

// SyndromeKind distinguishes an ACK from the two kinds of NAK.
type SyndromeKind uint8

// Syndrome kinds.
const (
	KindACK      SyndromeKind = 0
	KindRNRNAK   SyndromeKind = 1
	KindReserved SyndromeKind = 2
	KindNAK      SyndromeKind = 3
)

var syndromeKindNames = [4]string{"Ack", "RNR Nak", "Reserved", "Nak"}

func (k SyndromeKind) String() string { return syndromeKindNames[k&3] }

const (
	syndromeKindShift = 5
	syndromeValueMask = 0x1f
)

// ACK returns the syndrome of an acknowledgement with a credit code.
func ACK(creditCode uint8) Syndrome { return Syndrome(creditCode & syndromeValueMask) }

// RNRNAK returns the syndrome of a receiver-not-ready NAK with a timer code.
func RNRNAK(timerCode uint8) Syndrome {
	return Syndrome(KindRNRNAK)<<syndromeKindShift | Syndrome(timerCode&syndromeValueMask)
}

// Kind returns the kind of s.
func (s Syndrome) Kind() SyndromeKind { return SyndromeKind(s >> syndromeKindShift & 3) }

// Value returns the low five bits: the credit code of an ACK, the timer code
// of an RNR NAK, the NAK code of a NAK.
func (s Syndrome) Value() uint8 { return uint8(s) & syndromeValueMask }

// NAK returns s without its reserved bit, to compare with the NAK constants.
func (s Syndrome) NAK() Syndrome { return s & 0x7f }

var nakNames = [...]string{"PSN Sequence Error", "Invalid Request", "Remote Access Error",
	"Remote Operational Error", "Invalid RD Request"}

// String returns Wireshark's words: the kind, or the error of a NAK.
func (s Syndrome) String() string {
	if s.Kind() != KindNAK {
		return s.Kind().String()
	}
	if int(s.Value()) < len(nakNames) {
		return nakNames[s.Value()]
	}
	return fmt.Sprintf("Unknown (%d)", s.Value())
}

// CreditsInvalid is the credit code of a responder that gives no end-to-end
// credits: the requester is not limited by them.
const CreditsInvalid = 31

// creditCounts is the meaning of credit codes 0 to 30.
// Spec: IBTA vol. 1, 9.7.7 (end-to-end flow control credits).
var creditCounts = [CreditsInvalid]uint32{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
	1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Credits decodes a credit code into receive requests beyond the MSN of the
// AETH; ok is false for CreditsInvalid, which sets no limit.
func Credits(code uint8) (n uint32, ok bool) {
	if code >= CreditsInvalid {
		return 0, false
	}
	return creditCounts[code], true
}

// CreditCode encodes n receive requests as the largest code that promises no
// more than n.
func CreditCode(n uint32) uint8 {
	return uint8(sort.Search(len(creditCounts), func(i int) bool {
		return creditCounts[i] > n
	}) - 1)
}

// rnrTimers is the meaning of RNR timer codes, in microseconds.
// Spec: IBTA vol. 1, 9.7.5.2 (the RNR NAK timer field).
var rnrTimers = [32]uint32{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720, 40960, 61440, 81920, 122880, 163840, 245760,
	327680, 491520,
}

// RNRTimer returns how long a requester waits after an RNR NAK with this timer code (0 to 31)
// before it repeats the request. Code 0 is the longest.
func RNRTimer(code uint8) time.Duration {
	return time.Duration(rnrTimers[code&syndromeValueMask]) * time.Microsecond
}
