// SPDX-License-Identifier: BSD-2-Clause

// Package raw carries the frames of raw packet queue pairs by packet sockets. The processes of an
// interface need nothing of each other: the kernel gives each frame to all.
//
//	link   a network interface: the socket that sends for all of its queue pairs, and its flows
//	Conn   a queue pair
//	Flow   the frames that are for a queue pair
//	input  the socket whose frames are steered, while there is a flow
//
// The machines of package roce/raw make and take the frames.
package raw
