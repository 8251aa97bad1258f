// SPDX-License-Identifier: BSD-2-Clause

//go:build !linux

package xdpwire

import (
	"net/netip"
	"testing"

	"verbena/internal/sys/portshare"
	"verbena/internal/sys/xsk"
)

// Main is m.Run: there is no AF_XDP.
func Main(m *testing.M) int { return m.Run() }

// Wanted returns false.
func Wanted() bool { return false }

// Skip does nothing.
func Skip(testing.TB, string) {}

// Place is never made here.
type Place struct {
	Addr   netip.Addr
	Dir    string
	Frames []portshare.Interface
	Attach portshare.Attach
	LookUp xsk.LookUp
}

// Of returns nil.
func Of(testing.TB) *Place { return nil }
