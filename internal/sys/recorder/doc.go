// SPDX-License-Identifier: BSD-2-Clause

// Package recorder keeps the newest packets of a process in memory. It writes them to a file when a
// completion fails, or the process is asked for them.
//
//	packets ──► pcap.Ring ──► FILE, FILE-2, …   a failure, or SIGUSR1
//	                     └──► a stream          verbena stat dump
//
// A file that is there is left alone: the next number is taken. One that is not whole yet has a
// name that ends in ".part". Failures less than a second apart are one. A Recorder owns one
// goroutine, which ends with Close. Its caller provides the signal, as a program in C may have a
// handler of its own.
package recorder
