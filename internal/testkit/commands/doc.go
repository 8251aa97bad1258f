// SPDX-License-Identifier: BSD-2-Clause

// Package commands finds the commands that a page of the documentation tells its reader to type:
// the fenced blocks of language sh, and the lines after a prompt in those of language console.
// Tests run them as they stand.
//
// A comment on the line before a block says how it is treated:
//
//	<!-- run by make apps -->         a test in apps runs it, with programs of Debian's
//	<!-- not run: REASON -->          no test runs it, and the reason is printed
//
// Blocks without a comment run in go test ./docs.
package commands
