// SPDX-License-Identifier: BSD-2-Clause

package verbs

import (
	"reflect"
	"testing"

	"verbena/internal/core"
)

// TestWorkRequestsAreThoseOfCore compares the work requests with those of package core, as which
// PostSend, PostRecv and BindMW pass them on.
func TestWorkRequestsAreThoseOfCore(t *testing.T) {
	for _, c := range [][2]reflect.Type{
		{reflect.TypeFor[SendWR](), reflect.TypeFor[core.SendWR]()},
		{reflect.TypeFor[RecvWR](), reflect.TypeFor[core.RecvWR]()},
		{reflect.TypeFor[BindWR](), reflect.TypeFor[core.BindWR]()},
		{reflect.TypeFor[RegWR](), reflect.TypeFor[core.RegWR]()},
	} {
		ours, theirs := c[0], c[1]
		if ours.Size() != theirs.Size() || ours.NumField() != theirs.NumField() {
			t.Errorf("%v has %d fields in %d bytes, %v %d in %d", ours, ours.NumField(), ours.Size(), theirs, theirs.NumField(), theirs.Size())
			continue
		}
		for i := range ours.NumField() {
			f, g := ours.Field(i), theirs.Field(i)
			same := f.Type == g.Type || f.Type.Kind() == reflect.Pointer && g.Type.Kind() == reflect.Pointer && f.Type.Elem().Name() == g.Type.Elem().Name()
			if f.Name != g.Name || f.Offset != g.Offset || !same {
				t.Errorf("%v: field %s %v at %d is %s %v at %d in package core", ours, f.Name, f.Type, f.Offset, g.Name, g.Type, g.Offset)
			}
		}
	}
}
