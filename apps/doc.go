// SPDX-License-Identifier: BSD-2-Clause

// Package apps runs the verbs applications that Debian ships, unmodified, over
// our libibverbs and librdmacm. Its tests need the build tag `apps`, the
// packages that the Makefile lists, and `make build`:
//
//	make apps                                            # all, with what they need installed
//	go test -tags apps -v -run 'Applications/rping' ./apps   # one
//	… -args -page ../docs/applications.md                         # and write the table there
//
// Each case is an exchange of a server and a client, or a program alone, with
// the exit statuses and outputs that it must have. All run in a network
// namespace of their own, with two devices: of the loopback interface, and of an
// Ethernet interface with an MTU of 1500. No privilege is needed for that where
// users may make namespaces; elsewhere the machine's own interfaces are used.
// What iWARP defines runs over its devices on the Ethernet interface, too, and
// what reliable connections can do over an NTB link.
//
// Commands are typed into a shell as they stand: those that README.md and docs mark for this, those
// of the manual page, and the steps for a continuous integration.
//
// What no software device can do stands in the table too, with the reason: a
// case of it passes if the program is refused cleanly, and an empty cell has its
// reason in gaps.
package apps
