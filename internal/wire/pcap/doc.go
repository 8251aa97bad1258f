// SPDX-License-Identifier: BSD-2-Clause

// Package pcap writes capture files. It also has the values that package pcapread returns for their
// contents.
//
// A Writer takes datagrams and TCP segments as a socket sees them, without link
// or IP header. It writes pcapng of link type "raw IP", with the headers that the
// ICRC covers, so that Wireshark dissects the frames and checks the ICRC. It may
// be shared by goroutines.
//
// Every program that uses package verbs has this package linked in, so it needs
// the standard library only.
//
// Spec: draft-ietf-opsawg-pcapng; RFC 791, 8200, 768 and 9293 for the headers
package pcap
