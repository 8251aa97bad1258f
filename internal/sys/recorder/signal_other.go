// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package recorder

// OnSignal does nothing: there is no SIGUSR1 everywhere.
func OnSignal(func()) (stop func()) { return func() {} }
