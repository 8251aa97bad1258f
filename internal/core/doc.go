// SPDX-License-Identifier: BSD-2-Clause

// Package core has the objects of verbs: contexts, protection domains, memory regions and windows,
// completion queues, queue pairs, shared receive queues, XRC domains and address handles. It holds
// their state and does their work on package engine.
//
// The public package verbs defines its types over these, so that a *verbs.QP converts to a *QP and
// back at no cost. Its documentation is the objects' documentation. The comments here add only
// facts for other packages of the module.
//
// Beyond the API of verbs, package rdmacm finds the engine and the NTB link of a context here, and
// gives queue pairs their streams. The C libraries find completion queues and receive queues that
// lie in C's memory, and sends that are posted one work request at a time.
//
// A method is safe for concurrent use unless its comment says otherwise. ARCHITECTURE.md has the
// order of locks.
package core
