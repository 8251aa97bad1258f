package rc_test

import (
	"testing"

	"verbena/ib"
	"verbena/internal/testkit/script"
)

// Packets of one size share a train. (The middle packets of a WRITE once went
// out one by one, at a quarter of the bandwidth: the check that spares a look
// at memory took them to be four bytes longer than they are.)
func TestPacketsShareTrains(t *testing.T) {
	for _, c := range []struct {
		name   string
		post   func(s *script.Script)
		trains int
	}{
		{"one large WRITE: first and second packet, then all the others", func(s *script.Script) { s.Post(script.Write(30 * 1024)) }, 2},
		{"many small WRITEs", func(s *script.Script) {
			s.Together(func() {
				for range 16 {
					s.Post(script.Write(8))
				}
			})
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script.New(t, newRC, attr(func(a *ib.QPAttr) { a.PathMTU = ib.MTU1024 }))
			c.post(s)
			if s.Trains != c.trains {
				t.Errorf("%d trains, want %d", s.Trains, c.trains)
			}
		})
	}
}
