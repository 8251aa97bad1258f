// SPDX-License-Identifier: BSD-2-Clause

// Package oracle is what two connected queue pairs do, as the specification
// tells it to their users: work requests one after the other on plain memory,
// without packets, time or loss. A simulation compares memory and completions
// with it. It stays short enough to be believed by reading.
package oracle
