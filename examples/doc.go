// SPDX-License-Identifier: BSD-2-Clause

// Package examples holds no code: each folder is a complete program to copy from, and the tests
// here build and run all of them. docs/go.md says what each shows.
package examples
