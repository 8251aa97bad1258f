// SPDX-License-Identifier: BSD-2-Clause

// Package rig has two ends for tests of the engine's transports: an engine with an address
// and keys of its own, and queue pairs with queues and a buffer, without the verbs around.
// It knows no transport: a test gives it the engine, and each Endpoint its Conn.
package rig
