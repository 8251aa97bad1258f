// SPDX-License-Identifier: BSD-2-Clause

// Package policy holds the numbers of the polling and waking policy. They decide which thread reads
// when, how long the background goroutine stays, sleeps and looks again, and how long an
// acknowledgement waits for the application.
//
// Table lists each number with its unit and its reason. The numbers are constants. A
// program built with the tag `policy` takes them from the environment instead, so that
// an experiment switches one off or moves it:
//
//	go build -tags policy ./cmd/verbena
//	VERBENA_POLICY=MaxLinger=0,MinLinger=0,SocketPolls=1 ./verbena perf …
//
// The numbers of the protocols (time-outs of a peer, sizes of buffers) are not here.
package policy
