// SPDX-License-Identifier: BSD-2-Clause

// Package netns runs tests in a network namespace of their own, in which they
// are the administrator of interfaces and disturb nobody.
//
// Such a test is a process of its own: the test binary runs again, with this one test. A thread
// alone could be moved too, but the process's other threads would stay behind. Sockets that a
// background goroutine opens, and addresses that it looks up, would be those of the machine. And a
// main thread that was moved never comes back.
package netns
