// SPDX-License-Identifier: BSD-2-Clause

// Empty: it lets futex_unsafe.go declare functions of the Go runtime.
