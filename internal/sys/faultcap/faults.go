// SPDX-License-Identifier: BSD-2-Clause

package faultcap

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"verbena/internal/monotime"
)

// Faults are those of a bad network: for each datagram sent, or for each write to a stream, which
// knows Corrupt, Cut, Delay and Jitter. Shares are probabilities from 0 to 1 and independent of
// each other.
type Faults struct {
	Loss    float64           // is not sent
	Dup     float64           // is sent twice
	Reorder float64           // is sent after one to three of those that follow it
	Corrupt float64           // has one bit changed
	Cut     float64           // of a stream: resets it instead
	Delay   monotime.Duration // is sent this much later
	Jitter  monotime.Duration // … and up to this much more; large enough, it reorders datagrams
	Seed    uint64            // of the random numbers
}

// maxDelay bounds delay and jitter: beyond it any transport has given up.
const maxDelay = 10 * monotime.Second

// faultKeys lists the words of ParseFaults, in the order of String.
var faultKeys = []struct {
	name  string
	share func(*Faults) *float64
	time  func(*Faults) *monotime.Duration
}{
	{name: "loss", share: func(f *Faults) *float64 { return &f.Loss }},
	{name: "dup", share: func(f *Faults) *float64 { return &f.Dup }},
	{name: "reorder", share: func(f *Faults) *float64 { return &f.Reorder }},
	{name: "corrupt", share: func(f *Faults) *float64 { return &f.Corrupt }},
	{name: "cut", share: func(f *Faults) *float64 { return &f.Cut }},
	{name: "delay", time: func(f *Faults) *monotime.Duration { return &f.Delay }},
	{name: "jitter", time: func(f *Faults) *monotime.Duration { return &f.Jitter }},
	{name: "seed"},
}

// ParseFaults reads a list such as "loss=1%,dup=0.5%,delay=1ms,seed=42". Shares
// are percentages or fractions, times are Go durations. The empty string is no
// faults. Errors name the key.
func ParseFaults(s string) (Faults, error) {
	var f Faults
	if s == "" {
		return f, nil
	}
	seen := map[string]bool{}
	for _, item := range strings.Split(s, ",") {
		key, val, found := strings.Cut(item, "=")
		key, val = strings.TrimSpace(key), strings.TrimSpace(val)
		if !found || val == "" {
			return Faults{}, fmt.Errorf("faults: %q has no value: write it as key=value", item)
		}
		if seen[key] {
			return Faults{}, fmt.Errorf("faults: %s is given twice", key)
		}
		seen[key] = true
		if err := f.set(key, val); err != nil {
			return Faults{}, err
		}
	}
	return f, nil
}

func (f *Faults) set(key, val string) (err error) {
	for _, k := range faultKeys {
		if k.name != key {
			continue
		}
		switch {
		case k.share != nil:
			*k.share(f), err = parseShare(key, val)
		case k.time != nil:
			*k.time(f), err = parseDelay(key, val)
		default:
			if f.Seed, err = strconv.ParseUint(val, 0, 64); err != nil {
				err = fmt.Errorf("faults: %s=%s: must be a whole number from 0 to 2^64-1", key, val)
			}
		}
		return err
	}
	var names []string
	for _, k := range faultKeys {
		names = append(names, k.name)
	}
	return fmt.Errorf("faults: unknown key %q: use %s", key, strings.Join(names, ", "))
}

func parseShare(key, val string) (float64, error) {
	num, percent := strings.CutSuffix(val, "%")
	x, err := strconv.ParseFloat(num, 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x <= 1) {
		return 0, fmt.Errorf("faults: %s=%s: must be a share from 0%% to 100%%, "+
			"such as 1%% or 0.01", key, val)
	}
	return x, nil
}

func parseDelay(key, val string) (monotime.Duration, error) {
	d, err := time.ParseDuration(val)
	if err != nil || d < 0 || d > maxDelay {
		return 0, fmt.Errorf("faults: %s=%s: must be a time from 0s to %v, such as 1ms or 250us",
			key, val, maxDelay)
	}
	return d, nil
}

// ForStreams reports the faults of f that a stream cannot have; nil if there are none. The system
// delivers a stream's bytes each once and in order, or not at all.
func (f Faults) ForStreams() error {
	f.Corrupt, f.Cut, f.Delay, f.Jitter, f.Seed = 0, 0, 0, 0, 0
	if f == (Faults{}) {
		return nil
	}
	return fmt.Errorf("faults: %v is not available over TCP, which repairs it: use "+
		"corrupt, delay, jitter and cut, or tc-netem(8)", f)
}

// ForDatagrams reports the faults of f that datagrams cannot have; nil if there are none.
func (f Faults) ForDatagrams() error {
	if f.Cut == 0 {
		return nil
	}
	return fmt.Errorf("faults: %v is available over TCP only: it resets a stream",
		Faults{Cut: f.Cut})
}

// None reports whether f changes no datagram.
func (f Faults) None() bool { f.Seed = 0; return f == Faults{} }

// String writes f as ParseFaults reads it, without zero values.
func (f Faults) String() string {
	var out []string
	for _, k := range faultKeys {
		switch {
		case k.share != nil:
			if x := *k.share(&f); x != 0 {
				out = append(out, k.name+"="+strconv.FormatFloat(x*100, 'g', 10, 64)+"%")
			}
		case k.time != nil:
			if d := *k.time(&f); d != 0 {
				out = append(out, k.name+"="+d.String())
			}
		case f.Seed != 0:
			out = append(out, k.name+"="+strconv.FormatUint(f.Seed, 10))
		}
	}
	return strings.Join(out, ",")
}
