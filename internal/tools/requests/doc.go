// SPDX-License-Identifier: BSD-2-Clause

// Package requests is the Go twin of make bench's request/response programs: a server that sleeps
// until requests come, and its clients. They use verbs, or streams of package net or rsocket, or
// net/http over either.
//
// A request has requestBytes bytes, its answer as many as the arguments say. The server prints
// "ready" when it listens. The client prints "connected" with a count and the seconds that took,
// and waits for a line. It sends requests for a while, prints "answered" with a count and seconds,
// and leaves at the end of its input.
package requests
