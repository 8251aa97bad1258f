// SPDX-License-Identifier: BSD-2-Clause

package stream

import (
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"verbena/internal/wire/pcapread"
)

// Connection is one TCP connection of a capture: Sent[0] has the bytes of the end that opened it,
// up to the first that the capture lacks.
type Connection struct {
	Name    string
	Sent    [2][]byte
	Missing [2]bool // there is more behind bytes that were not captured
}

type piece struct {
	at   uint32 // from the first byte after SYN
	data []byte
}

// Load returns the connections of a capture that it saw beginning, in the order
// of their first segments.
func Load(path string) ([]Connection, error) {
	r, err := pcapread.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	type end struct {
		src, dst netip.AddrPort
	}
	var order []end
	first, pieces := map[end]uint32{}, map[end][]piece{}
	for {
		_, s, err := r.NextPacket()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		e := end{s.Src, s.Dst}
		if s.SYN {
			if _, ok := first[end{s.Dst, s.Src}]; !ok {
				order = append(order, e)
			}
			first[e] = s.Seq + 1
		}
		if start, ok := first[e]; ok && len(s.Payload) > 0 {
			pieces[e] = append(pieces[e], piece{s.Seq - start, slices.Clone(s.Payload)})
		}
	}
	var all []Connection
	for _, e := range order {
		c := Connection{Name: fmt.Sprintf("%s %v", filepath.Base(path), e.src)}
		for i, from := range []end{e, {e.dst, e.src}} {
			c.Sent[i], c.Missing[i] = join(pieces[from])
		}
		all = append(all, c)
	}
	return all, nil
}

func join(list []piece) (b []byte, missing bool) {
	slices.SortStableFunc(list, func(x, y piece) int { return int(int32(x.at - y.at)) })
	for _, p := range list {
		known := len(b) - int(p.at)
		if known < 0 {
			return b, true
		}
		if known < len(p.data) {
			b = append(b, p.data[known:]...)
		}
	}
	return b, false
}

// LoadAll returns the connections of all captures of siw in a folder.
func LoadAll(t testing.TB, folder string) (all []Connection) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "siw*.pcap"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures of siw in %s (%v)", folder, err)
	}
	for _, f := range files {
		c, err := Load(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c...)
	}
	return all
}
