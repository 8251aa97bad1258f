// SPDX-License-Identifier: BSD-2-Clause

// Package apps runs the verbs applications that Debian ships, unmodified, over
// our libibverbs and librdmacm. Its tests need the build tag `apps`, the
// packages that the Makefile lists, and `make build`:
//
//	make apps                                            # all; installs the programs that they need
//	go test -tags apps -v -run 'Applications/rping' ./apps   # one
//	… -args -page ../docs/applications.md                         # and write the table there
//
// Each case is an exchange of a server and a client, or a program alone, with the exit statuses and
// outputs that it must have. All run in a network namespace of their own, with two devices: of the
// loopback interface, and of an Ethernet interface with an MTU of 1500. No privilege is needed for
// that where users may make namespaces; elsewhere the machine's own interfaces are used. Cases that
// iWARP defines run over its devices on the Ethernet interface, too. Cases of reliable connections
// also run over an NTB link.
//
// Commands are typed into a shell as they stand: those that README.md and docs mark for this, those
// of the manual page, and the steps for a continuous integration.
//
// Cases that no software device can run stand in the table too, with the reason: such a case passes
// if the program is refused cleanly, and an empty cell has its reason in gaps.
package apps
