// SPDX-License-Identifier: BSD-2-Clause

package fdtrack

import (
	"os"
	"testing"
)

func has(fd int) (found bool) {
	Each(func(n int) { found = found || n == fd })
	return found
}

func TestHeld(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	AddConn(f)
	fd := int(f.Fd())
	if !has(fd) {
		t.Error("a descriptor added is not there")
	}
	RemoveConn(f)
	if has(fd) {
		t.Error("a descriptor removed is still there")
	}
	f.Close()
	AddConn(f) // closed: nothing to note
	if has(fd) {
		t.Error("a closed file was added")
	}
}
