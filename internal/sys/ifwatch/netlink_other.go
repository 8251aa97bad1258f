// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package ifwatch

import "errors"

// listener has no counterpart on other systems than Linux.
type listener struct{}

func listen(func(*listener, []Change)) (*listener, error) { return nil, errors.ErrUnsupported }

func (l *listener) close() {}
