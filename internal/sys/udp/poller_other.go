// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package udp

import (
	"errors"
	"time"

	"verbena/internal/monotime"
)

// waiter blocks on a channel; the sockets' goroutines wake it.
type waiter struct {
	woken chan struct{}
}

func (w *waiter) open() error {
	w.woken = make(chan struct{}, 1)
	return nil
}

func (w *waiter) openSet() error                    { return errors.ErrUnsupported }
func (w *waiter) silence()                          {}
func (w *waiter) pollFD() int                       { return -1 }
func (w *waiter) add(int, uint64) error             { return errors.ErrUnsupported }
func (w *waiter) remove(int) error                  { return errors.ErrUnsupported }
func (w *waiter) setPaused(int, uint64, bool) error { return errors.ErrUnsupported }
func (w *waiter) wakeFD() int                       { return -1 }
func (w *waiter) lost() bool                        { return false }
func (w *waiter) close() error                      { return nil }

func (w *waiter) wait(timeout monotime.Duration, _ []uint64) (int, error) {
	switch {
	case timeout < 0:
		<-w.woken
	case timeout == 0:
		select {
		case <-w.woken:
		default:
		}
	default:
		t := time.NewTimer(timeout)
		defer t.Stop()
		select {
		case <-w.woken:
		case <-t.C:
		}
	}
	return 0, nil
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}
