// SPDX-License-Identifier: BSD-2-Clause

package device

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func names(t *testing.T, list []Info, err error) (out []string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		out = append(out, d.Name)
	}
	return out
}

func TestSelection(t *testing.T) {
	list, err := All()
	all := names(t, list, err)
	of := func(kind Kind) (out []string) {
		for _, name := range all {
			if strings.HasPrefix(name, string(kind)+"_") {
				out = append(out, name)
			}
		}
		return out
	}
	last := of(KindIWARP)[len(of(KindIWARP))-1]
	for _, c := range []struct {
		text  string
		want  []string
		kinds []Kind
	}{
		{"", of(KindRoCE), []Kind{KindRoCE}},
		{",", of(KindRoCE), []Kind{KindRoCE}},
		{"roce", of(KindRoCE), []Kind{KindRoCE}},
		{"trp,roce", slices.Concat(of(KindTRP), of(KindRoCE)), []Kind{KindTRP, KindRoCE}},
		{last + ",roce", append([]string{last}, of(KindRoCE)...), []Kind{KindIWARP, KindRoCE}},
		{"iwarp,," + last, of(KindIWARP), []Kind{KindIWARP}},
		{"nonsense", nil, nil},
	} {
		s := ParseSelection(c.text)
		list, err := s.List()
		if got := names(t, list, err); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
		if got := s.Kinds(); !slices.Equal(got, c.kinds) {
			t.Errorf("%q is of the kinds %q, want %q", c.text, got, c.kinds)
		}
	}
	if err := ParseSelection("roce," + last).Check(); err != nil {
		t.Error(err)
	}
	if err := ParseSelection("roce,iwarp_none").Check(); !errors.Is(err, syscall.ENODEV) || !strings.Contains(err.Error(), "iwarp_none") {
		t.Errorf("a device that there is not: %v", err)
	}
}

// Devices of one interface have numbers of their own.
func TestNumbersDiffer(t *testing.T) {
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]string{}
	for i := range list {
		n := list[i].Number()
		if seen[n] != "" {
			t.Errorf("%s and %s have number %d", seen[n], list[i].Name, n)
		}
		seen[n] = list[i].Name
		if list[i].Kind == KindRoCE && n != list[i].Index {
			t.Errorf("%s has number %d, its interface %d", list[i].Name, n, list[i].Index)
		}
	}
}
