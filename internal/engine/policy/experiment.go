// SPDX-License-Identifier: BSD-2-Clause

//go:build policy

package policy

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"verbena/internal/monotime"
	"verbena/internal/sys/secenv"
)

// The numbers of Table, or of the environment.
var (

	// Poll: the inputs that a call of Lane.Poll looks at.
	TimerPolls     = setting[uint64]("TimerPolls", defaultTimerPolls)
	HeldPolls      = setting[uint64]("HeldPolls", defaultHeldPolls)
	SocketPolls    = setting[uint64]("SocketPolls", defaultSocketPolls)
	SilentLooks    = setting[uint64]("SilentLooks", defaultSilentLooks)
	SilentPolls    = setting[uint64]("SilentPolls", defaultSilentPolls)
	FramePolls     = setting[uint64]("FramePolls", defaultFramePolls)
	LaneLook       = setting[monotime.Duration]("LaneLook", defaultLaneLook)
	BusyPolls      = setting[uint64]("BusyPolls", defaultBusyPolls)
	OthersPolls    = setting[uint64]("OthersPolls", defaultOthersPolls)
	RingTurn       = setting[int]("RingTurn", defaultRingTurn)
	StreamTurn     = setting[int]("StreamTurn", defaultStreamTurn)
	DirectStreams  = setting[int]("DirectStreams", defaultDirectStreams)
	StreamSetPolls = setting[uint64]("StreamSetPolls", defaultStreamSetPolls)
	DirectPorts    = setting[int]("DirectPorts", defaultDirectPorts)
	LargeSegment   = setting[int]("LargeSegment", defaultLargeSegment)

	// Idle: when the background goroutine leaves the inputs to polling threads.
	Nap           = setting[monotime.Duration]("Nap", defaultNap)
	MaxNap        = setting[monotime.Duration]("MaxNap", defaultMaxNap)
	PollersGone   = setting[monotime.Duration]("PollersGone", defaultPollersGone)
	NapPeek       = setting[monotime.Duration]("NapPeek", defaultNapPeek)
	MissedNaps    = setting[int]("MissedNaps", defaultMissedNaps)
	AttendUseless = setting[monotime.Duration]("AttendUseless", defaultAttendUseless)
	AttendTerm    = setting[monotime.Duration]("AttendTerm", defaultAttendTerm)
	MaxAttendTerm = setting[monotime.Duration]("MaxAttendTerm", defaultMaxAttendTerm)
	MinLinger     = setting[monotime.Duration]("MinLinger", defaultMinLinger)
	MaxLinger     = setting[monotime.Duration]("MaxLinger", defaultMaxLinger)

	// Delayed acknowledgements (delayedack.go).
	AckGrace    = setting[monotime.Duration]("AckGrace", defaultAckGrace)
	AckBatches  = setting[int]("AckBatches", defaultAckBatches)
	AckPolls    = setting[uint64]("AckPolls", defaultAckPolls)
	AckMisses   = setting[int]("AckMisses", defaultAckMisses)
	MinTogether = setting[int]("MinTogether", defaultMinTogether)
	MaxTogether = setting[int]("MaxTogether", defaultMaxTogether)

	// Answers that leave together.
	AnswerBatch = setting[int]("AnswerBatch", defaultAnswerBatch)
	AnswerGap   = setting[monotime.Duration]("AnswerGap", defaultAnswerGap)

	Spin      = setting[monotime.Duration]("Spin", defaultSpin)
	SpinLook  = setting[monotime.Duration]("SpinLook", defaultSpinLook)
	SpinBytes = setting[int]("SpinBytes", defaultSpinBytes)

	// Rings between the processes of a host.
	RingRetry    = setting[monotime.Duration]("RingRetry", defaultRingRetry)
	RingLook     = setting[monotime.Duration]("RingLook", defaultRingLook)
	BypassBytes  = setting[int]("BypassBytes", defaultBypassBytes)
	BypassRate   = setting[int64]("BypassRate", defaultBypassRate)
	BypassSlow   = setting[int]("BypassSlow", defaultBypassSlow)
	BypassBursts = setting[int]("BypassBursts", defaultBypassBursts)

	// NTB links.
	LinkFirstLook = setting[monotime.Duration]("LinkFirstLook", defaultLinkFirstLook)
	LinkLastLook  = setting[monotime.Duration]("LinkLastLook", defaultLinkLastLook)
)

// setting returns the value that VERBENA_POLICY gives a number, or the default.
func setting[T ~int | ~int64 | ~uint64](name string, def T) T {
	for _, word := range strings.Split(secenv.Get("VERBENA_POLICY"), ",") {
		key, value, _ := strings.Cut(word, "=")
		if key != name {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			fmt.Fprintf(os.Stderr, "VERBENA_POLICY: %s=%s: want a whole number from 0 on\n",
				key, value)
			os.Exit(2)
		}
		return T(n)
	}
	return def
}
