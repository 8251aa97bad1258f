// SPDX-License-Identifier: BSD-2-Clause

// Package lockorder finds the orders in which a program's functions take their locks, from its
// source alone. So a test can compare them with an order that a document promises, without a run
// that happens to meet each path.
//
// A lock is a variable or field of type sync.Mutex or sync.RWMutex, or a field that points to one.
// All values of one type share a field's lock here. The analysis walks each function, and notes
// the locks that it may hold where it takes another one, itself or by a call:
//
//	Load ─► Program ─► Edges     A is held where B is taken
//
// Calls through interfaces of the program reach all types that implement them. Calls of function
// values reach the functions that are assigned to the variable, field or parameter anywhere.
//
// TryLock makes a lock held, and waits for none: it adds no edge to that lock. Locks that are taken
// in a goroutine of its own follow none of its starter. Not seen are channels, sync.Cond, and calls
// through interfaces of the standard library.
package lockorder
