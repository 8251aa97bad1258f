// SPDX-License-Identifier: BSD-2-Clause

// Package sandbox says in words that this process may not have sockets, which the
// system's own words do not: a seccomp filter has socket(2) fail with an errno of its
// choice, and that alone arrives at the user.
package sandbox
