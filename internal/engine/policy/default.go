// SPDX-License-Identifier: BSD-2-Clause

//go:build !policy

package policy

import "verbena/internal/monotime"

// The numbers of Table.
const (

	// Poll: the inputs that a call of Lane.Poll looks at.
	TimerPolls     uint64            = defaultTimerPolls
	HeldPolls      uint64            = defaultHeldPolls
	SocketPolls    uint64            = defaultSocketPolls
	SilentLooks    uint64            = defaultSilentLooks
	SilentPolls    uint64            = defaultSilentPolls
	FramePolls     uint64            = defaultFramePolls
	LaneLook       monotime.Duration = defaultLaneLook
	BusyPolls      uint64            = defaultBusyPolls
	OthersPolls    uint64            = defaultOthersPolls
	RingTurn       int               = defaultRingTurn
	StreamTurn     int               = defaultStreamTurn
	DirectStreams  int               = defaultDirectStreams
	StreamSetPolls uint64            = defaultStreamSetPolls
	DirectPorts    int               = defaultDirectPorts
	LargeSegment   int               = defaultLargeSegment

	// Idle: when the background goroutine leaves the inputs to polling threads.
	Nap           monotime.Duration = defaultNap
	MaxNap        monotime.Duration = defaultMaxNap
	PollersGone   monotime.Duration = defaultPollersGone
	NapPeek       monotime.Duration = defaultNapPeek
	MissedNaps    int               = defaultMissedNaps
	AttendUseless monotime.Duration = defaultAttendUseless
	AttendTerm    monotime.Duration = defaultAttendTerm
	MaxAttendTerm monotime.Duration = defaultMaxAttendTerm
	MinLinger     monotime.Duration = defaultMinLinger
	MaxLinger     monotime.Duration = defaultMaxLinger

	// Delayed acknowledgements (delayedack.go).
	AckGrace    monotime.Duration = defaultAckGrace
	AckBatches  int               = defaultAckBatches
	AckPolls    uint64            = defaultAckPolls
	AckMisses   int               = defaultAckMisses
	MinTogether int               = defaultMinTogether
	MaxTogether int               = defaultMaxTogether

	// Answers that leave together.
	AnswerBatch int               = defaultAnswerBatch
	AnswerGap   monotime.Duration = defaultAnswerGap

	// Threads that read on before they sleep (spin.go).
	Spin      monotime.Duration = defaultSpin
	SpinLook  monotime.Duration = defaultSpinLook
	SpinBytes int               = defaultSpinBytes

	// Rings between the processes of a host.
	RingRetry    monotime.Duration = defaultRingRetry
	RingLook     monotime.Duration = defaultRingLook
	BypassBytes  int               = defaultBypassBytes
	BypassRate   int64             = defaultBypassRate
	BypassSlow   int               = defaultBypassSlow
	BypassBursts int               = defaultBypassBursts

	// NTB links.
	LinkFirstLook monotime.Duration = defaultLinkFirstLook
	LinkLastLook  monotime.Duration = defaultLinkLastLook
)
