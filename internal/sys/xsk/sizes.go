// SPDX-License-Identifier: BSD-2-Clause

package xsk

// Sizes of a pool. They bound the pinned memory: 48 MiB with frames of 2 KiB, one queue.
const (
	// Places bounds the processes that share a pool. Others use the kernel's sockets.
	Places = 32
	// rxFrames is the length of a process's receive ring. A process that is stopped keeps as many
	// frames, so the pool has as many for each place.
	rxFrames = 512
	// txFrames is the number of frames that a process may have under way.
	txFrames = 256
	// MaxQueues bounds the queues of an interface that a pool serves: the descriptors of a seat fit
	// one message of the keeper's.
	MaxQueues = 8
)
