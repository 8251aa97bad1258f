// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"

	"verbena/cabi/layout"
	"verbena/ib"
	"verbena/internal/queue"
	"verbena/internal/sys/shmring"
)

// A view is a Go type through which Go uses memory of C's, or the other way round.
type view struct {
	typ reflect.Type
	c   string // the structure in C
	in  string // the member of it that the view is of, if it is not the whole
	// members are C's names of the Go fields, in order, but of those named _. With [] the
	// last one is a flexible array.
	members string
}

var views = []view{
	{reflect.TypeFor[layout.SendWR](), "struct ibv_send_wr", "",
		"wr_id next sg_list num_sge opcode send_flags imm_data wr qp_type " +
			"bind_mw.mw bind_mw.rkey bind_mw.bind_info"},
	{reflect.TypeFor[layout.RDMA](), "struct ibv_send_wr", "wr.rdma", "remote_addr rkey"},
	{reflect.TypeFor[layout.Atomic](), "struct ibv_send_wr", "wr.atomic",
		"remote_addr compare_add swap rkey"},
	{reflect.TypeFor[layout.UD](), "struct ibv_send_wr", "wr.ud", "ah remote_qpn remote_qkey"},
	{reflect.TypeFor[ib.SGE](), "struct ibv_sge", "", "addr length lkey"},
	{reflect.TypeFor[ib.WC](), "struct vb_wc", "",
		"wr_id status opcode flags vendor_err byte_len imm_data invalidated_rkey qp_num src_qp " +
			"pkey_index slid sl tag_high"},
	{reflect.TypeFor[ib.WCTime](), "struct vb_wc_time", "", "device wallclock"},
	{reflect.TypeFor[queue.Ring](), "struct vb_cq_ring", "", "head tail overrun mask slots"},
	{reflect.TypeFor[queue.RecvRing](), "struct vb_recv_ring", "", "head tail posting"},
	{board, "struct vb_board", "", "suffices entries mask polls at[]"},
	{fieldOf(board, "at").Elem(), "struct vb_board", "at[0]", "data next"},
}

// board is the memory of a Board, whose type has no exported name.
var board = fieldOf(reflect.TypeFor[shmring.Board](), "shared").Elem()

// fieldOf returns the type of a field.
func fieldOf(of reflect.Type, name string) reflect.Type {
	f, ok := of.FieldByName(name)
	if !ok {
		panic(of.String() + " has no field " + name)
	}
	return f.Type
}

// values are constants that have one value in both languages.
var values = []struct {
	c  string
	is any
}{
	{"VB_RECV_REFUSED", queue.PostingRefused},
	{"VB_RECV_FREE", queue.PostingFree},
	{"VB_RECV_NOTIFY", queue.PostingNotify},
	{"VB_WR_FLUSH", ib.WRFlush},
}

// layouts returns static assertions: in C each structure has the size, and each member the
// place and the size, that it has in Go.
func layouts() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`_Static_assert(sizeof(void *) == 8, "64-bit only");

#define SAME(type, member, at, size, name) \
	_Static_assert(offsetof(type, member) == (at) && sizeof(((type *)0)->member) == (size), name)

`)
	for _, v := range views {
		if err := v.asserts(&b); err != nil {
			return nil, err
		}
	}
	for _, v := range values {
		fmt.Fprintf(&b, "_Static_assert(%[1]s == %[2]d, \"%[1]s\");\n", v.c, v.is)
	}
	return b.Bytes(), nil
}

// asserts writes the assertions of a view.
func (v *view) asserts(b *bytes.Buffer) error {
	in, start := "", ""
	if v.in != "" {
		in, start = v.in+".", fmt.Sprintf("offsetof(%s, %s) + ", v.c, v.in)
	}
	members := strings.Fields(v.members)
	for i := range v.typ.NumField() {
		f := v.typ.Field(i)
		if f.Name == "_" {
			continue
		}
		if len(members) == 0 {
			return fmt.Errorf("%v.%s has no member of %s", v.typ, f.Name, v.c)
		}
		m, flexible := strings.CutSuffix(members[0], "[]")
		members = members[1:]
		if flexible {
			fmt.Fprintf(b, "_Static_assert(offsetof(%s, %s) == %d, \"%v.%s\");\n",
				v.c, m, f.Offset, v.typ, f.Name)
		} else {
			fmt.Fprintf(b, "SAME(%s, %s%s, %s%d, %d, \"%v.%s\");\n",
				v.c, in, m, start, f.Offset, f.Type.Size(), v.typ, f.Name)
		}
	}
	if len(members) > 0 {
		return fmt.Errorf("%v has no field for %v of %s", v.typ, members, v.c)
	}
	switch {
	case v.in != "":
		fmt.Fprintf(b, "_Static_assert(sizeof(((%s *)0)->%s) == %d, \"%v\");\n",
			v.c, v.in, v.typ.Size(), v.typ)
	case !strings.HasSuffix(v.members, "[]"):
		fmt.Fprintf(b, "_Static_assert(sizeof(%s) == %d, \"%v\");\n", v.c, v.typ.Size(), v.typ)
	}
	return nil
}
