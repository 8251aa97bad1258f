// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"os"
	"testing"
)

func TestLimitsAreThoseOfTheDevice(t *testing.T) {
	have, err := os.ReadFile("../libibverbs/device_limits.h")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, limits()) {
		t.Error("cabi/libibverbs/device_limits.h is not what internal/device says: go run ./cabi/gen cabi/libibverbs/device_limits.h")
	}
}
