// SPDX-License-Identifier: BSD-2-Clause

package ibcm

import (
	"errors"
	"fmt"
)

// Errors of commands.
var (
	ErrUnknown     = errors.New("ibcm: no such connection or listener")
	ErrInUse       = errors.New("ibcm: service id is being listened to")
	ErrTooMany     = errors.New("ibcm: too many connections")
	ErrPrivateData = errors.New("ibcm: private data too long for the message")
)

// StateError is a command that the state of the connection does not allow.
type StateError struct {
	Op    string
	State State
}

func (e *StateError) Error() string { return fmt.Sprintf("ibcm: %s in state %v", e.Op, e.State) }
