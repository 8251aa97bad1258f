// SPDX-License-Identifier: BSD-2-Clause

package freeport_test

import (
	"fmt"
	"net"
	"os"
	"sync"
	"testing"

	"verbena/internal/sys/freeport"
)

func TestListens(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "[::1]", ""} {
		port, err := freeport.Free()
		if err != nil {
			t.Fatal(err)
		}
		if freeport.ListensAt(os.Getpid(), port) {
			t.Errorf("port %d is free and listens", port)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", address, port))
		if err != nil {
			t.Fatal(err)
		}
		if !freeport.ListensAt(os.Getpid(), port) {
			t.Errorf("%s listens and is not seen", l.Addr())
		}
		l.Close()
		if freeport.ListensAt(os.Getpid(), port) {
			t.Errorf("port %d is still seen", port)
		}
	}
}

// TestListensTakesNoPort has servers bind while somebody waits for them: a look that binds the
// port failed some of them.
func TestListensTakesNoPort(t *testing.T) {
	port, err := freeport.Free()
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				freeport.ListensAt(os.Getpid(), port)
			}
		}
	})
	for range 300 {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			t.Error(err)
			break
		}
		l.Close()
	}
	close(stop)
	asking.Wait()
}
