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

	// Poll: what a call of Engine.Poll looks at.
	TimerPolls     uint64 = uint64(setting("TimerPolls", int64(defaultTimerPolls)))
	HeldPolls      uint64 = uint64(setting("HeldPolls", int64(defaultHeldPolls)))
	SocketPolls    uint64 = uint64(setting("SocketPolls", int64(defaultSocketPolls)))
	FiredTimers    int    = int(setting("FiredTimers", int64(defaultFiredTimers)))
	RingTurn       int    = int(setting("RingTurn", int64(defaultRingTurn)))
	StreamTurn     int    = int(setting("StreamTurn", int64(defaultStreamTurn)))
	DirectStreams  int    = int(setting("DirectStreams", int64(defaultDirectStreams)))
	StreamSetPolls uint64 = uint64(setting("StreamSetPolls", int64(defaultStreamSetPolls)))
	DirectPorts    int    = int(setting("DirectPorts", int64(defaultDirectPorts)))
	LargeSegment   int    = int(setting("LargeSegment", int64(defaultLargeSegment)))
	SmallReads     int    = int(setting("SmallReads", int64(defaultSmallReads)))

	// Idle: when the background goroutine leaves the inputs to the threads that poll.
	IdlePolls        uint64            = uint64(setting("IdlePolls", int64(defaultIdlePolls)))
	Nap              monotime.Duration = monotime.Duration(setting("Nap", int64(defaultNap)))
	NapPeek          monotime.Duration = monotime.Duration(setting("NapPeek", int64(defaultNapPeek)))
	MissedNaps       int               = int(setting("MissedNaps", int64(defaultMissedNaps)))
	AttendUseless    monotime.Duration = monotime.Duration(setting("AttendUseless", int64(defaultAttendUseless)))
	MinLinger        monotime.Duration = monotime.Duration(setting("MinLinger", int64(defaultMinLinger)))
	MaxLinger        monotime.Duration = monotime.Duration(setting("MaxLinger", int64(defaultMaxLinger)))
	CheckDescriptors monotime.Duration = monotime.Duration(setting("CheckDescriptors", int64(defaultCheckDescriptors)))

	// Delayed acknowledgements (delayedack.go).
	AckGrace    monotime.Duration = monotime.Duration(setting("AckGrace", int64(defaultAckGrace)))
	AckBatches  int               = int(setting("AckBatches", int64(defaultAckBatches)))
	AckPolls    uint64            = uint64(setting("AckPolls", int64(defaultAckPolls)))
	AckMisses   int               = int(setting("AckMisses", int64(defaultAckMisses)))
	MinTogether int               = int(setting("MinTogether", int64(defaultMinTogether)))
	MaxTogether int               = int(setting("MaxTogether", int64(defaultMaxTogether)))

	// Rings between the processes of a host.
	RingRetry    monotime.Duration = monotime.Duration(setting("RingRetry", int64(defaultRingRetry)))
	RingLook     monotime.Duration = monotime.Duration(setting("RingLook", int64(defaultRingLook)))
	BypassBytes  int               = int(setting("BypassBytes", int64(defaultBypassBytes)))
	BypassRate   int64             = int64(setting("BypassRate", int64(defaultBypassRate)))
	BypassSlow   int               = int(setting("BypassSlow", int64(defaultBypassSlow)))
	BypassBursts int               = int(setting("BypassBursts", int64(defaultBypassBursts)))

	// NTB links.
	LinkFirstLook  monotime.Duration = monotime.Duration(setting("LinkFirstLook", int64(defaultLinkFirstLook)))
	LinkLastLook   monotime.Duration = monotime.Duration(setting("LinkLastLook", int64(defaultLinkLastLook)))
	LinkFlushPause monotime.Duration = monotime.Duration(setting("LinkFlushPause", int64(defaultLinkFlushPause)))
)

// setting returns the value that VERBENA_POLICY gives a number, or the default.
func setting(name string, def int64) int64 {
	for _, word := range strings.Split(secenv.Get("VERBENA_POLICY"), ",") {
		key, value, _ := strings.Cut(word, "=")
		if key != name {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			fmt.Fprintf(os.Stderr, "VERBENA_POLICY: %s=%s: want a whole number from 0 on\n", key, value)
			os.Exit(2)
		}
		return n
	}
	return def
}
