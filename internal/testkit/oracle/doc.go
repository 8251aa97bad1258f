// SPDX-License-Identifier: BSD-2-Clause

// Package oracle models two connected queue pairs as the specification describes them to their
// users: work requests one after the other on plain memory, without packets, time or loss. A
// simulation compares memory and completions with it. It stays short enough to be believed by
// reading.
package oracle
