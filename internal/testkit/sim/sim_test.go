// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
)

// seedsEnv asks for more seeds than the default, from a start of its own:
// "20000" or "5000000+20000".
const seedsEnv = "VERBENA_SIM_SEEDS"

const (
	defaultSeeds = 300
	shortSeeds   = 60
)

// TestSeeds runs seeds 1 to 300, or those of VERBENA_SIM_SEEDS.
func TestSeeds(t *testing.T) {
	if sum := seeds(t, Run); sum.Long != 0 {
		t.Error("long packets on the wire")
	}
}

// TestSeedsInMemory is TestSeeds with the packets that processes of one host write to their rings.
func TestSeedsInMemory(t *testing.T) {
	if sum := seeds(t, RunInMemory); sum.Long == 0 {
		t.Error("no long packets")
	}
}

func seeds(t *testing.T, run func(seed uint64) (Outcomes, error)) (sum Outcomes) {
	n := uint64(defaultSeeds)
	if testing.Short() {
		n = shortSeeds
	}
	first, n := seedRange(t, n)
	failed := 0
	for seed := first; seed < first+n; seed++ {
		o, err := run(seed)
		if err != nil {
			t.Error(err)
			if failed++; failed == 10 {
				t.Fatal("and so on")
			}
		}
		sum.add(o)
	}
	t.Logf("%d seeds: %+v", n, sum)
	if n >= shortSeeds && (sum.Errors == 0 || sum.Flushed == 0 || sum.Retransmitted == 0 || sum.Replays == 0 || sum.Kills == 0 || sum.Revoked == 0 || sum.BadPackets == 0 || sum.XRC == 0 || sum.Kept == 0 || sum.NotKept == 0) {
		t.Error("the runs did not see everything they are for")
	}
	return sum
}

// seedRange returns the first seed and their number: 1 and n, or those of VERBENA_SIM_SEEDS.
func seedRange(t *testing.T, n uint64) (first, count uint64) {
	v := os.Getenv(seedsEnv)
	if v == "" {
		return 1, n
	}
	from, number, ok := strings.Cut(v, "+")
	if !ok {
		from, number = "1", v
	}
	first, err1 := strconv.ParseUint(from, 10, 64)
	count, err2 := strconv.ParseUint(number, 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("%s=%q: want a count, or first+count", seedsEnv, v)
	}
	return first, count
}

func (s *Outcomes) add(o Outcomes) {
	s.Sends += o.Sends
	s.Recvs += o.Recvs
	s.Errors += o.Errors
	s.Flushed += o.Flushed
	s.Retransmitted += o.Retransmitted
	s.Replays += o.Replays
	s.Kills += o.Kills
	s.Revoked += o.Revoked
	s.BadPackets += o.BadPackets
	s.XRC += o.XRC
	s.Long += o.Long
	s.Kept += o.Kept
	s.NotKept += o.NotKept
}

// TestKeptSeeds replays every seed that ever failed; testdata/seeds names the fault that each
// found.
func TestKeptSeeds(t *testing.T) {
	f, err := os.Open("testdata/seeds")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		number, _, _ := strings.Cut(line, " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("testdata/seeds: %q", line)
		}
		if _, err := Run(seed); err != nil {
			t.Errorf("%v (it once failed: %s)", err, line)
		}
	}
}

// TestReplay runs seeds twice: every byte and every completion is the same.
func TestReplay(t *testing.T) {
	for seed := uint64(1000); seed < 1020; seed++ {
		a, _ := Run(seed)
		b, _ := Run(seed)
		if a != b {
			t.Fatalf("seed %d: %+v, then %+v", seed, a, b)
		}
		if c, _ := Run(seed + 1); c.Hash == a.Hash {
			t.Fatalf("seeds %d and %d have one trace", seed, seed+1)
		}
	}
}
