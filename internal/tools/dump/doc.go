// SPDX-License-Identifier: BSD-2-Clause

// Package dump is "verbena dump": captures as text, one line a packet, in
// Wireshark's words. Package trace has the words, package pcap the files.
package dump
