// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package ifwatch

import "errors"

// listener has no counterpart on other systems than Linux.
type listener struct{}

func listen(func(*listener, []Change)) (*listener, error) { return nil, errors.ErrUnsupported }

func (l *listener) close() {}

// Monitor has no counterpart either.
type Monitor struct{}

// NewMonitor fails.
func NewMonitor() (*Monitor, error) { return nil, errors.ErrUnsupported }

// Changed reports a change.
func (*Monitor) Changed() bool { return true }

// Close does nothing.
func (*Monitor) Close() {}
