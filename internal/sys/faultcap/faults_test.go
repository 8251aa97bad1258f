// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"strings"
	"testing"

	"verbena/internal/monotime"
)

func TestParseFaults(t *testing.T) {
	for s, want := range map[string]Faults{
		"":        {},
		"loss=1%": {Loss: 0.01},
		"loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=1ms,jitter=250us,seed=42": {
			Loss: 0.01, Dup: 0.005, Reorder: 0.02, Corrupt: 0.001, Delay: monotime.Millisecond, Jitter: 250 * monotime.Microsecond, Seed: 42},
		" loss = 100% , seed=0x10": {Loss: 1, Seed: 16},
		"dup=0.25,delay=0s":        {Dup: 0.25},
	} {
		got, err := ParseFaults(s)
		if err != nil || got != want {
			t.Errorf("ParseFaults(%q) = %+v, %v; want %+v", s, got, err, want)
		}
		if back, err := ParseFaults(got.String()); err != nil || back != got {
			t.Errorf("%q written as %q does not read back: %+v, %v", s, got.String(), back, err)
		}
	}
}

func TestParseFaultsNamesTheKey(t *testing.T) {
	for s, want := range map[string]string{
		"loss":            `"loss" has no value`,
		"loss=":           `"loss=" has no value`,
		"loss=1%,":        `"" has no value`,
		"los=1%":          `unknown key "los": use loss, dup, reorder, corrupt, cut, delay, jitter, seed`,
		"loss=101%":       "loss=101%: must be a share",
		"dup=-1%":         "dup=-1%: must be a share",
		"reorder=NaN":     "reorder=NaN: must be a share",
		"corrupt=much":    "corrupt=much: must be a share",
		"delay=1":         "delay=1: must be a time",
		"jitter=-1ms":     "jitter=-1ms: must be a time",
		"delay=1h":        "delay=1h: must be a time from 0s to 10s",
		"seed=-1":         "seed=-1: must be a whole number",
		"loss=1%,loss=2%": "loss is given twice",
	} {
		if _, err := ParseFaults(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFaults(%q): error %v, want %q", s, err, want)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	f.Add("loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,cut=5%,delay=1ms,jitter=250us,seed=42")
	f.Add("loss=1e-3,seed=0b1")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseFaults(s)
		if err != nil {
			return
		}
		again, err := ParseFaults(got.String())
		if err != nil || again.String() != got.String() {
			t.Errorf("%q is written as %q, which reads as %q, %v", s, got.String(), again.String(), err)
		}
	})
}
