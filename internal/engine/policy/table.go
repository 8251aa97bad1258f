// SPDX-License-Identifier: BSD-2-Clause

package policy

import "verbena/internal/monotime"

// A Number is a row of Table.
type Number struct {
	Name    string
	Default int64
	Unit    string
	Off     string // the value that switches its mechanism off; empty where there is none
	Why     string
	// Shown is the row of `make bench` where an experiment looks first. For a bound on a wait, or
	// on the cost of an idle process, it is the test that fails without the bound.
	Shown string
}

// Table lists the numbers. The constants, and the variables of an experiment, take their
// values from the defaults below.
var Table = []Number{
	// Poll: the inputs that a call of Lane.Poll looks at.
	{"TimerPolls", int64(defaultTimerPolls), "polls", "1",
		"Polls between looks at the clock: a poll costs well below a microsecond, the finest " +
			"timer is ten. With 1 the row takes 1.03 times as long, and 1.6 with HeldPolls 1.",
		"SEND 2 B, one way, polling, same host"},
	{"HeldPolls", int64(defaultHeldPolls), "polls", "1",
		"Polls between looks at whether the descriptors are ours still: the background " +
			"goroutine, which looks more often, may wait for sockets that are closed. With 1 the " +
			"row takes 1.4 times as long.",
		"SEND 2 B, one way, polling, same host"},
	{"SocketPolls", int64(defaultSocketPolls), "polls", "1",
		"Polls between looks at sockets where rings are: a look at an empty one costs as much as " +
			"20 polls. With 1 the row takes 1.6 to 2.5 times as long.",
		"SEND 2 B, one way, polling, same host"},
	{"SilentLooks", int64(defaultSilentLooks), "looks", "",
		"Looks at sockets in a row that found nothing, some 4,000 polls, before sockets are " +
			"looked at more rarely.", "TestSilentSocketsAreLookedAtRarely"},
	{"SilentPolls", int64(defaultSilentPolls), "polls", "64",
		"Polls between looks from then on, until a look finds something. With 64 the row takes " +
			"1.06 to 1.09 times as long. A first packet waits for some 10 µs.",
		"SEND 2 B, one way, polling, same host"},
	{"FramePolls", int64(defaultFramePolls), "polls", "256",
		"The same where interfaces have frames, by which nearly all packets come. With 256 the " +
			"row takes 1.04 to 1.06 times as long. A first packet to a socket waits for some " +
			"80 µs.",
		"SEND 8 B, one way, frames, MTU 1500"},
	{"LaneLook", int64(defaultLaneLook), "ns", "",
		"A polling thread reads for completion queues that nobody has polled for so long: longer " +
			"than a polling thread takes to post 16 messages.",
		"SEND 64 B, 2 threads of one process, same host"},
	{"BusyPolls", int64(defaultBusyPolls), "polls", "",
		"If an eighth of so many polls of a thread find another thread reading a socket, the " +
			"thread gets a socket of its own: it costs descriptors, and some ten milliseconds of " +
			"polling pay for them.",
		"SEND 64 B, 2 threads of one process, UDP"},
	{"OthersPolls", int64(defaultOthersPolls), "polls", "",
		"A goroutine in CompChannel.Wait leaves the reading to other threads once they have " +
			"polled so often meanwhile. Otherwise each message for them wakes it, and they take " +
			"twice as long.",
		"TestTokenHolderLeavesReadingToPollers"},
	{"RingTurn", int64(defaultRingTurn), "packets", "1",
		"Packets that one look takes from a ring, that a burst in it has, and answers to it " +
			"that wait for each other: the other end works on the first ones meanwhile. " +
			"With 8 the row has 0.95.",
		"C same host, 64 B, 1 client, 50 outstanding: requests"},
	{"StreamTurn", int64(defaultStreamTurn), "reads", "1",
		"Reads of one TCP stream before others get their turn. One leaves 0.8 of the row.",
		"iWARP WRITE 64 KiB, no CRC"},
	{"DirectStreams", int64(defaultDirectStreams), "streams", "0",
		"TCP streams that are each asked, without asking epoll first: with 0 the row takes 1.08 " +
			"times as long.", "iWARP SEND 2 B, one way, polling"},
	{"StreamSetPolls", int64(defaultStreamSetPolls), "polls", "1",
		"Polls between looks at epoll while streams are asked directly: it has the streams that " +
			"wait to write, and new ones. With 1 the row takes 1.06 times as long.",
		"iWARP SEND 2 B, one way, polling"},
	{"DirectPorts", int64(defaultDirectPorts), "ports", "0",
		"TRP ports that are each asked, without asking epoll first: with 0 the row takes 1.09 " +
			"times as long.", "TRP SEND 2 B, one way, polling"},
	{"LargeSegment", int64(defaultLargeSegment), "bytes", "",
		"Segments from this length on are read header first, straight to their place: a system " +
			"call for each, or for those of a message that are counted. Done for segments of " +
			"1 KiB it leaves 0.42 of their rate.",
		"iWARP WRITE 64 KiB, no CRC"},

	// Idle: when the background goroutine leaves the inputs to polling threads.
	{"Nap", int64(defaultNap), "ns",
		"", "The goroutine's sleep while another thread polls, in a process that does not wait " +
			"for cores. With NapPeek it is the longest that a packet waits for a thread that " +
			"polls slowly, or left without notice.", "TestCollectEndsTheSleepOfTheGoroutine"},
	{"MaxNap", int64(defaultMaxNap), "ns", "0",
		"… to which it doubles in a process that gets less than three quarters of a core, and " +
			"one of whose threads had to leave its core in the last 5 ms: a wake-up of each " +
			"process takes as much as ten turns of a polling thread. Beside a polling thread " +
			"that sleeps, as its core has a thread that computes, it is as long at once.",
		"UCX rc, 16 ranks: barrier"},
	{"PollersGone", int64(defaultPollersGone), "ns", "",
		"Longer than between two turns of a polling thread among many that share its core. Until " +
			"then the goroutine naps, and reads after a nap in which no thread read the sockets.",
		"TestThreadThatWaitsForACorePolls"},
	{"NapPeek", int64(defaultNapPeek), "ns", "0",
		"Longer than between two polls of a thread that sends in between. With 0 the goroutine " +
			"attends beside such a thread, and the row takes 1.36 times as long.",
		"SEND 2 B, one way, polling, UDP"},
	{"MissedNaps", int64(defaultMissedNaps), "naps", "",
		"Naps in a row that left packets lying, before the goroutine waits instead: one alone " +
			"may be a thread that was held up.",
		"TestGoroutineAttendsWhereSleepsLeavePacketsLying"},
	{"AttendUseless", int64(defaultAttendUseless), "ns",
		"", "Another thread takes everything for so long before the goroutine naps again.",
		"TestGoroutineSleepsAgainWhereOthersReadEverything"},
	{"AttendTerm", int64(defaultAttendTerm), "ns", "",
		"The goroutine attends for so long before it naps again to see whether packets are left " +
			"lying still: ten times as long as it takes to see it.",
		"TestGoroutineNapsAgainToSeeWhetherItIsNeeded"},
	{"MaxAttendTerm", int64(defaultMaxAttendTerm), "ns", "",
		"… and at most, to which the terms double.",
		"TestGoroutineNapsAgainToSeeWhetherItIsNeeded"},
	{"MinLinger", int64(defaultMinLinger), "ns", "0",
		"Least stay of the goroutine after the last packet.", "WRITE 64 KiB, UDP"},
	{"MaxLinger", int64(defaultMaxLinger), "ns", "0",
		"Longest stay: in a stream the next packet is nearer than a sleep and a wake-up.",
		"WRITE 64 KiB, UDP"},

	// Delayed acknowledgements (delayedack.go).
	{"AckGrace", int64(defaultAckGrace), "ns", "0",
		"Several round trips between two polling ends: within it the next message comes, if the " +
			"two talk in turns. With 0 the row takes 1.33 times as long.",
		"SEND 2 B, one way, polling, UDP"},
	{"AckBatches", int64(defaultAckBatches), "batches", "1",
		"Messages that one delayed acknowledgement covers. With 1 the row takes 1.4 times as " +
			"long.", "SEND 2 B, one way, polling, UDP"},
	{"AckPolls", int64(defaultAckPolls), "polls", "1",
		"Empty polls between looks: a look costs as much as half a poll. With 1 the row takes " +
			"1.08 times as long.", "SEND 2 B, one way, polling, UDP"},
	{"AckMisses", int64(defaultAckMisses), "times",
		"", "Graces in a row that ran out before the peer is taken to wait for the " +
			"acknowledgement: one alone is a peer that was held up.", "ib_send_lat 2 B"},
	{"MinTogether", int64(defaultMinTogether), "messages", "",
		"Messages acknowledged with the answer after that, at first.", "ib_send_lat 2 B"},
	{"MaxTogether", int64(defaultMaxTogether), "messages", "",
		"… and at most: a few lost graces among so many messages are nothing.", "ib_send_lat 2 B"},

	// Answers that leave together (answers.go).
	{"AnswerBatch", int64(defaultAnswerBatch), "posts", "1",
		"Answers to messages that came together are written together. With 32 the row has 0.85 " +
			"times as many.",
		"C RoCEv2 over veth, 64 B, 1 client, 50 outstanding: requests"},
	{"AnswerGap", int64(defaultAnswerGap), "ns", "",
		"An application that takes longer between two answers computes them.",
		"TestSlowAnswersLeaveAtOnce"},

	// Threads that read on before they sleep.
	{"Spin", int64(defaultSpin), "ns", "0",
		"A thread that is about to sleep reads on for so long while that pays: longer than a " +
			"sleeping peer takes to wake up and answer. With 0 the row has 0.3.",
		"C RoCEv2 over veth, 64 B, 1 client: requests"},
	{"SpinLook", int64(defaultSpinLook), "ns", "",
		"… and looks at sockets so often: each look is a system call.",
		"C RoCEv2 over veth, 64 B, 1 client: server system calls a request"},
	{"SpinBytes", int64(defaultSpinBytes), "bytes", "1073741824",
		"After a message of so many bytes by sockets of RoCEv2 threads sleep at once. With " +
			"1 GiB the row had 1.7 times as much in twelve rounds. Seven more, with 0.85 times " +
			"the requests, showed no gain: it depends on whether both ends share a core.",
		"C RoCEv2 over veth, 64 KiB, 1 client: server CPU a request"},

	// Rings between the processes of a host.
	{"RingRetry", int64(defaultRingRetry), "ns", "",
		"A queue pair that found the ring full looks again: by then a reader has taken a good " +
			"part of it.", "TestFullRingIsLookedAtEverLessOften"},
	{"RingLook", int64(defaultRingLook), "ns",
		"", "Longest time between looks at a ring that nobody has read for long; before that an " +
			"eighth of the time.", "TestFullRingIsLookedAtEverLessOften"},
	{"BypassBytes", int64(defaultBypassBytes), "bytes", "",
		"Least length of a burst whose time shows whether the reader shares a cache.",
		"WRITE 1 MiB, same host"},
	{"BypassRate", int64(defaultBypassRate), "bytes/ns", "0",
		"A shared cache is never slower: twice the rate of two chips, half that of one.",
		"WRITE 1 MiB, same host"},
	{"BypassSlow", int64(defaultBypassSlow), "bursts", "",
		"Slow bursts in a row that are no accident.", "WRITE 1 MiB, same host"},
	{"BypassBursts", int64(defaultBypassBursts), "bursts", "0",
		"Bursts written past the caches before the caches are tried again.",
		"WRITE 1 MiB, same host"},

	// NTB links.
	{"LinkFirstLook", int64(defaultLinkFirstLook), "ns",
		"", "First look of the goroutine at a link that cannot wake it: with 500 µs two sleeping " +
			"ends take 3.8 times as long.", "TestPausesBetweenLooksAtALink"},
	{"LinkLastLook", int64(defaultLinkLastLook), "ns", "",
		"… and its longest pause, to which the pauses double: bounds the cost of an idle link. " +
			"Also the pause before a link that did not take everything is asked again.",
		"TestPausesBetweenLooksAtALink"},
}

const (
	defaultTimerPolls     = 16
	defaultHeldPolls      = 256
	defaultSocketPolls    = 64
	defaultSilentLooks    = 64
	defaultSilentPolls    = 256
	defaultFramePolls     = 1024
	defaultLaneLook       = 50 * monotime.Microsecond
	defaultBusyPolls      = 4096
	defaultOthersPolls    = 256
	defaultRingTurn       = 16
	defaultStreamTurn     = 16
	defaultDirectStreams  = 2
	defaultStreamSetPolls = 8
	defaultDirectPorts    = 4
	defaultLargeSegment   = 8 << 10
	defaultNap            = 500 * monotime.Microsecond
	defaultMaxNap         = 4 * monotime.Millisecond
	defaultPollersGone    = 5 * monotime.Millisecond
	defaultNapPeek        = 200 * monotime.Microsecond
	defaultMissedNaps     = 2
	defaultAttendUseless  = 2 * monotime.Millisecond
	defaultAttendTerm     = 20 * monotime.Millisecond
	defaultMaxAttendTerm  = 2000 * monotime.Millisecond
	defaultMinLinger      = 5 * monotime.Microsecond
	defaultMaxLinger      = 100 * monotime.Microsecond
	defaultAckGrace       = 50 * monotime.Microsecond
	defaultAckBatches     = 8
	defaultAckPolls       = 4
	defaultAckMisses      = 3
	defaultMinTogether    = 64
	defaultMaxTogether    = 1 << 16
	defaultAnswerBatch    = 64
	defaultAnswerGap      = 10 * monotime.Microsecond
	defaultSpin           = 50 * monotime.Microsecond
	defaultSpinLook       = 4 * monotime.Microsecond
	defaultSpinBytes      = 32 << 10
	defaultRingRetry      = 50 * monotime.Microsecond
	defaultRingLook       = 20 * monotime.Millisecond
	defaultBypassBytes    = 16 << 10
	defaultBypassRate     = 6
	defaultBypassSlow     = 8
	defaultBypassBursts   = 1024
	defaultLinkFirstLook  = 20 * monotime.Microsecond
	defaultLinkLastLook   = 1 * monotime.Millisecond
)
