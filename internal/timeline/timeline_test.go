// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/talk"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

var update = flag.Bool("update", false, "write testdata/summary.txt anew")

const captures = "../../testdata/captures"

func read(t testing.TB, files ...[]byte) *Timeline {
	t.Helper()
	var sources []Source
	for _, b := range files {
		r, err := pcapread.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, Source{Name: "test", Reader: r})
	}
	tl, err := Read(context.Background(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	consistent(t, tl)
	return tl
}

// consistent holds that all ranges and references lead somewhere.
func consistent(t testing.TB, tl *Timeline) {
	t.Helper()
	p := &tl.Packets
	rows, ops, samples := 0, 0, 0
	for _, c := range tl.Conns {
		for _, r := range []struct {
			name string
			r    [2]int
			at   *int
		}{{"packets", c.PacketRange, &rows}, {"ops", c.OpRange, &ops}, {"samples", c.SampleRange, &samples}} {
			if r.r[0] != *r.at || r.r[1] < r.r[0] {
				t.Fatalf("%s of %v ⇄ %v: %v, want from %d on", r.name, &c.A, &c.B, r.r, *r.at)
			}
			*r.at = r.r[1]
		}
		for i := c.PacketRange[0]; i < c.PacketRange[1]; i++ {
			if o := p.Op[i]; o != None && (int(o) < c.OpRange[0] || int(o) >= c.OpRange[1]) {
				t.Fatalf("packet %d is of operation %d, which is of another connection", i, o)
			}
			if i > c.PacketRange[0] && p.Time[i] < p.Time[i-1] {
				t.Fatalf("packet %d is before the one before it", i)
			}
			if p.Time[i] < 0 || p.Time[i] > tl.Span || p.Kind[i] >= NumKinds {
				t.Fatalf("packet %d: time %d, kind %d", i, p.Time[i], p.Kind[i])
			}
		}
		for i := c.OpRange[0]; i < c.OpRange[1]; i++ {
			if o := &tl.Ops[i]; o.End < o.Start || o.Status >= NumStatuses || o.Operation >= NumOperations {
				t.Fatalf("operation %d: %+v", i, o)
			}
		}
		for _, f := range c.Findings {
			if f.Packet != -1 && (f.Packet < c.PacketRange[0] || f.Packet >= c.PacketRange[1]) {
				t.Fatalf("finding %q names packet %d", f.Text, f.Packet)
			}
		}
	}
	if rows != p.Len() || ops != len(tl.Ops) || samples != len(tl.Samples) {
		t.Fatalf("%d packets, %d operations, %d samples are of no connection", p.Len()-rows, len(tl.Ops)-ops, len(tl.Samples)-samples)
	}
	if n := (p.Len() + tl.Joined + ChunkRows - 1) / ChunkRows; len(tl.Details.Chunks) != n {
		t.Fatalf("%d chunks of fields, want %d", len(tl.Details.Chunks), n)
	}
}

// TestSummaryOfCaptures holds what is said of the captures of the kernel's drivers.
func TestSummaryOfCaptures(t *testing.T) {
	names, err := filepath.Glob(captures + "/*.pcap")
	if err != nil || len(names) < 50 {
		t.Fatalf("%d captures, %v", len(names), err)
	}
	var got bytes.Buffer
	for _, name := range names {
		r, err := pcapread.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := Read(t.Context(), Source{Name: filepath.Base(name), Reader: r})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, tl)
		if err := tl.WriteSummary(&got); err != nil {
			t.Fatal(err)
		}
	}
	const golden = "testdata/summary.txt"
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(got.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d differs:\n got %q\nwant %q\n(-update writes it anew)", i+1, g[min(i, len(g)-1)], w[min(i, len(w)-1)])
		}
	}
}

func kinds(tl *Timeline) (list []string) {
	for i, k := range tl.Packets.Kind {
		s := k.String()
		if tl.Packets.Flags[i]&GivenUp != 0 {
			s += " lost"
		}
		list = append(list, s)
	}
	return list
}

// TestLossy follows a conversation in which a packet is lost, the receiver is not ready, the
// network marks, and an access is refused. Nothing but PSNs pairs its ends.
func TestLossy(t *testing.T) {
	tl := read(t, talk.Lossy(t))
	if len(tl.Conns) != 1 {
		t.Fatalf("%d connections", len(tl.Conns))
	}
	c := tl.Conns[0]
	if c.A.QPN != uint32(talk.QPA) || c.B.QPN != uint32(talk.QPB) || c.Protocol != "RC" || c.Grade() != "bad" {
		t.Errorf("%s %v ⇄ %v, %s", c.Protocol, &c.A, &c.B, c.Grade())
	}
	want := strings.Split("sent,sent lost,sent lost,nak,repeated,repeated,ack,sent lost,rnr,repeated,cnp,ack,sent,response,response,sent,refusal", ",")
	if got := kinds(tl); !reflect.DeepEqual(got, want) {
		t.Errorf("kinds\n got %v\nwant %v", got, want)
	}
	for i, n := range []uint32{0, 1, 2, 1, 1, 2, 2, 3, 3, 3, 4, 3, 4, 4, 5, 6, 6} {
		if tl.Packets.Number[i] != n {
			t.Errorf("packet %d has number %d, want %d", i, tl.Packets.Number[i], n)
		}
	}
	var ops []string
	for i := range tl.Ops {
		o := tl.Ops[i]
		ops = append(ops, o.Title()+" "+o.Status.String())
	}
	if got := strings.Join(ops, ", "); got != "WRITE #1 done, SEND #2 done, READ #3 done, WRITE #4 failed" {
		t.Errorf("operations: %s", got)
	}
	if o := tl.Ops[0]; o.Packets != 5 || o.Repeated != 2 || o.Bytes != 2148 || o.End != 40000 {
		t.Errorf("%+v", o)
	}
	if o := tl.Ops[1]; o.Waited != 1 || o.Repeated != 1 {
		t.Errorf("%+v", o)
	}
	if o := tl.Ops[2]; o.Packets != 3 || o.Bytes != 2048 || o.End != 91000 {
		t.Errorf("%+v", o)
	}
	a := &c.A
	if a.Repeated != 3 || a.Resent != 2 || a.TimedOut != 0 || a.RNRs != 1 || a.CNPs != 1 || c.B.Marked != 1 ||
		a.NAKs["PSN Sequence Error"] != 1 || a.NAKs["Remote Access Error"] != 1 || a.Bytes != 2148+64+512 || c.B.Bytes != 2048 {
		t.Errorf("health of A: %+v", a)
	}
	if a.WindowMin != 32768 || a.WindowMax != 65536 || a.Lost != 1 || len(tl.Samples) != 2 || tl.Samples[1].RTT != 25000 {
		t.Errorf("samples: %+v, %+v", a, tl.Samples)
	}
	if f := c.Findings[0]; f.Text != "WRITE #4 of A failed at 120µs: Remote Access Error." || f.Packet != 16 {
		t.Errorf("first finding: %+v", f)
	}
}

// TestTimeOut: a request that nobody answers is one without an answer, repeated after time-outs.
func TestTimeOut(t *testing.T) {
	c := talk.New(t)
	for i := range 4 {
		c.At = time.Duration(i) * time.Millisecond
		c.Send(roce.RCSendOnly, 7, 10)
	}
	tl := read(t, c.Bytes())
	a := tl.Conns[0].A
	if a.Repeated != 3 || a.Resent != 1 || a.TimedOut != 1 || tl.Ops[0].Status != Open || tl.Ops[0].Repeated != 3 {
		t.Errorf("%+v\n%+v", a, tl.Ops[0])
	}
	if text := tl.Conns[0].Findings[0].Text; !strings.Contains(text, "SEND #1 of A has no answer") || tl.Conns[0].Grade() != "bad" {
		t.Errorf("finding %q", text)
	}
}

// TestLate: a capture at the receiver shows a packet behind later ones, without a first copy.
func TestLate(t *testing.T) {
	c := talk.New(t)
	c.Send(roce.RCRDMAWriteFirst, 1, 100)
	c.Send(roce.RCRDMAWriteLast, 3, 100)
	c.Send(roce.RCRDMAWriteMiddle, 2, 100)
	c.Ack(3)
	tl := read(t, c.Bytes())
	if got := strings.Join(kinds(tl), " "); got != "sent sent late ack" || len(tl.Ops) != 1 || tl.Ops[0].Status != Done || tl.Ops[0].Packets != 3 {
		t.Errorf("%s, operations %+v", got, tl.Ops)
	}
}

// TestRoundTrips: an acknowledgement measures the packet that it names, unless that was repeated.
func TestRoundTrips(t *testing.T) {
	c := talk.New(t)
	c.Send(roce.RCSendOnly, 1, 10)
	c.Send(roce.RCSendOnly, 2, 10)
	c.At = 31 * time.Microsecond
	c.Ack(2)
	c.Send(roce.RCSendOnly, 3, 10)
	c.Send(roce.RCSendOnly, 3, 10)
	c.Ack(3)
	tl := read(t, c.Bytes())
	if a := tl.Conns[0].A; a.RTTs != 1 || a.RTTMin != 30000 || a.RTTMax != 30000 {
		t.Errorf("%+v", a)
	}
	if got, want := tl.Packets.RTT, []uint32{0, 0, 30000, 0, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
	if got, want := tl.Packets.InFlight, []uint32{10, 20, 0, 10, 10, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("in flight %v", got)
	}
}

// Captures of both ends of one connection are two connections: their packets are the same ones.
func TestFilesStayApart(t *testing.T) {
	b := talk.Lossy(t)
	tl := read(t, b, b)
	if len(tl.Conns) != 2 || tl.Conns[1].File != 1 || tl.Conns[0].A.Repeated != 3 || tl.Conns[1].A.Repeated != 3 || len(tl.Ops) != 8 {
		t.Errorf("%d connections, %+v", len(tl.Conns), tl.Conns[1])
	}
}

func TestFields(t *testing.T) {
	tl := read(t, talk.Lossy(t))
	got := map[string]string{}
	for _, v := range tl.Details.Fields(tl.Packets.Serial[16]) {
		got[v.Layer+"/"+v.Name] = v.Text
	}
	for name, want := range map[string]string{"Frame/Number": "17", "IP/Source": "192.0.2.2", "IP/TTL or hop limit": "64",
		"UDP or TCP/Destination port": "4791", "BTH/OpCode": "RC Acknowledge", "BTH/DestQP": "0x000011", "BTH/PSN": "4",
		"AETH/Syndrome": "Nak: Remote Access Error", "ICRC/ICRC": "right", "BTH/P_Key": "0xffff"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if list := tl.Details.Fields(0); list[2].Name != "Source" || list[len(list)-1].Name != "Comment" {
		t.Errorf("%v", list)
	}
	if list := tl.Details.Fields(1 << 30); list != nil {
		t.Errorf("of no packet: %v", list)
	}
	for id, f := range FieldTable {
		if id > 0 && (f.Layer == "" || f.Name == "" || f.Form == "") {
			t.Errorf("field %d has no row", id)
		}
	}
}

func TestCalls(t *testing.T) {
	tl := read(t, talk.Lossy(t))
	n, err := tl.AddCalls(strings.NewReader("hello\n" +
		`time=2023-11-14T22:13:20.000004Z level=WARN msg=completion qpn=0x000011 status="remote access error"` + "\n" +
		`time=2023-11-14T22:13:20.000002Z level=DEBUG msg=ibv_post_send device=roce_lo qpn=0x000011 wr_id=7` + "\n" +
		`{"time":"2023-11-14T22:13:20.000003Z","level":"INFO","msg":"ibv_modify_qp","qp":{"qpn":"0x000022"}}` + "\n" +
		strings.Repeat("x", 1<<18) + "\n" + `time=nonsense msg=x` + "\n" + `{"time":`))
	if err != nil || n != 3 {
		t.Fatalf("%d calls, %v", n, err)
	}
	want := []Call{{2000, 0, "ibv_post_send", "ibv_post_send device=roce_lo qpn=0x000011 wr_id=7", false},
		{3000, 0, "ibv_modify_qp", "ibv_modify_qp qp.qpn=0x000022", false},
		{4000, 0, "completion", "completion qpn=0x000011 status=remote access error", true}}
	if !reflect.DeepEqual(tl.Calls, want) {
		t.Errorf("%+v", tl.Calls)
	}
}

// TestLevels: a bucket has the extremes of its packets.
func TestLevels(t *testing.T) {
	c := talk.New(t)
	const n = 20000
	for i := range uint32(n) {
		c.Send(roce.RCSendOnly, i, 10)
	}
	tl := read(t, c.Bytes())
	levels := tl.Levels(tl.Conns[0])
	if len(levels) != 1 || len(levels[0]) != (n+63)/64 {
		t.Fatalf("%d levels", len(levels))
	}
	sum := uint32(0)
	for i, b := range levels[0] {
		if b.Low[0] != uint32(64*i) || b.High[0] != uint32(min(64*i+63, n-1)) || b.Low[1] != None || b.Kinds != 1<<Sent {
			t.Fatalf("bucket %d: %+v", i, b)
		}
		sum += b.Payload[0]
	}
	if sum != 10*n {
		t.Errorf("%d bytes", sum)
	}
}

// TestCutShort: a damaged capture is read up to the damage, wherever it is.
func TestCutShort(t *testing.T) {
	whole := talk.Lossy(t)
	for n := 30; n < len(whole); n += 31 {
		r, err := pcapread.NewReader(bytes.NewReader(whole[:n]))
		if err != nil {
			continue
		}
		tl, err := Read(t.Context(), Source{Name: "cut", Reader: r})
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, tl)
	}
	for i := 0; i < len(whole); i += 5 {
		b := bytes.Clone(whole)
		b[i] ^= 0xff
		r, err := pcapread.NewReader(bytes.NewReader(b))
		if err != nil {
			continue
		}
		tl, err := Read(t.Context(), Source{Name: "damaged", Reader: r})
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, tl)
	}
}

// Many queue pairs that are never answered cost no more than their packets.
func TestStrangersAreBounded(t *testing.T) {
	c := talk.New(t)
	for i := range uint32(maxFlows + 1000) {
		c.Packet(i%2 == 1, roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, PSN: ib.NewPSN(i * 977), DestQP: ib.QPN(i + 100)}})
	}
	tl := read(t, c.Bytes())
	if len(tl.Conns) != maxFlows || tl.LeftOut != 1000 {
		t.Errorf("%d connections, %d packets left out", len(tl.Conns), tl.LeftOut)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(talk.Lossy(f))
	f.Add(circle(f))
	for _, name := range []string{"rxe-cmtose", "siw-op-read", "rxe-op-rnr", "siw-op-writebad"} {
		b, err := os.ReadFile(filepath.Join(captures, name+".pcap"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := pcapread.NewReader(bytes.NewReader(b))
		if err != nil {
			return
		}
		tl, err := Read(t.Context(), Source{Name: "fuzz", Reader: r})
		if err != nil {
			t.Fatal(err)
		}
		consistent(t, tl)
		for i := range tl.Packets.Len() {
			if len(tl.Details.Fields(tl.Packets.Serial[i])) == 0 {
				t.Fatalf("packet %d has no fields", i)
			}
		}
		tl.AddCalls(bytes.NewReader(b))
	})
}

// TestLateBeginAndEnd: messages are whole in the end if their first, last or only packet comes
// late. A sender's capture is so if faults lose packets before it sees them.
func TestLateBeginAndEnd(t *testing.T) {
	c := talk.New(t)
	c.Send(roce.RCRDMAWriteFirst, 1, 100)
	c.Send(roce.RCSendOnly, 3, 10) // 2, the last of the WRITE, is missing
	c.Send(roce.RCRDMAWriteMiddle, 6, 100)
	c.Send(roce.RCRDMAWriteLast, 7, 100) // 4, a SEND, is missing, and 5, the first of this WRITE
	c.Send(roce.RCRDMAWriteLast, 2, 100)
	c.Send(roce.RCSendOnly, 4, 10)
	c.Send(roce.RCRDMAWriteFirst, 5, 100)
	c.Ack(7)
	tl := read(t, c.Bytes())
	if got := strings.Join(kinds(tl), " "); got != "sent sent sent sent late late late ack" {
		t.Error(got)
	}
	for i, want := range []struct{ packets, bytes uint32 }{{2, 200}, {1, 10}, {3, 300}, {1, 10}} {
		if i >= len(tl.Ops) || tl.Ops[i].Status != Done || tl.Ops[i].Packets != want.packets || tl.Ops[i].Bytes != uint64(want.bytes) {
			t.Errorf("operation %d: %+v", i, tl.Ops)
		}
	}
}
