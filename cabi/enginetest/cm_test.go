// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package enginetest

import "testing"

func TestConnections(t *testing.T) { run(t, "cm_connection") }
func TestCMDatagrams(t *testing.T) { run(t, "cm_datagram") }
func TestCMEvents(t *testing.T)    { run(t, "cm_events") }
func TestCMRefusals(t *testing.T)  { run(t, "cm_refusals") }
