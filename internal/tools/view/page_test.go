// SPDX-License-Identifier: BSD-2-Clause

package view

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"verbena/ib"
	"verbena/internal/testkit/browser"
	"verbena/internal/testkit/talk"
	"verbena/internal/timeline"
	"verbena/internal/wire/pcapread"
	"verbena/internal/wire/roce"
)

var keep = flag.String("screenshots", "", "leave pictures of the pages in this directory")

func read(t testing.TB, name string, captures ...[]byte) *timeline.Timeline {
	t.Helper()
	var sources []timeline.Source
	for i, c := range captures {
		r, err := pcapread.NewReader(bytes.NewReader(c))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			name += "-" + strconv.Itoa(i)
		}
		sources = append(sources, timeline.Source{Name: name, Reader: r})
	}
	tl, err := timeline.Read(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// open shows a timeline in a browser, and holds at the end that the page asked for nothing else.
func open(t *testing.T, tl *timeline.Timeline) *browser.Browser {
	t.Helper()
	b := browser.Start(t, 1400, 900)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := writeFile(file, tl); err != nil {
		t.Fatal(err)
	}
	b.Open("file://" + file)
	b.Eval("verbenaView.ready", nil)
	t.Cleanup(func() {
		for _, e := range b.Events("Runtime.exceptionThrown") {
			t.Errorf("the page failed: %s", e.Params)
		}
		for _, e := range b.Events("Log.entryAdded") {
			t.Errorf("the browser complains: %s", e.Params)
		}
		for _, e := range b.Events("Network.requestWillBeSent") {
			if !bytes.Contains(e.Params, []byte("file://"+file)) {
				t.Errorf("the page asks for something: %s", e.Params)
			}
		}
		if *keep != "" && !t.Failed() {
			name := filepath.Join(*keep, strings.ReplaceAll(t.Name(), "/", "-")+".png")
			if err := os.WriteFile(name, b.Screenshot(), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

type state struct {
	Conn, Selected, Matches int
	From, To                float64
	Drawn                   map[string]int
	Thinned                 bool
	Panels                  []string
}

func stateOf(b *browser.Browser) (s state) {
	b.Eval("(verbenaView.draw(), verbenaView.state())", &s)
	return s
}

func text(b *browser.Browser, selector string) (s string) {
	q, _ := json.Marshal(selector)
	b.Eval("document.querySelector("+string(q)+").innerText", &s)
	return s
}

// TestPageShowsLoss: all that went wrong is drawn, listed, and found by a click.
func TestPageShowsLoss(t *testing.T) {
	tl := read(t, "lossy.pcapng", talk.Lossy(t))
	if _, err := tl.AddCalls(strings.NewReader("time=2023-11-14T22:13:20.000004Z level=DEBUG msg=ibv_post_send qpn=0x000011\n" +
		`time=2023-11-14T22:13:20.000121Z level=WARN msg=completion qpn=0x000011 status="remote access error"` + "\n")); err != nil {
		t.Fatal(err)
	}
	b := open(t, tl)
	s := stateOf(b)
	for kind, n := range map[string]int{"sent": 6, "repeated": 3, "nak": 1, "rnr": 1, "cnp": 1, "refusal": 1, "response": 2, "lost": 3, "operations": 4, "calls": 2,
		"lost in view": 1, "repeated in view": 3, "marked in view": 1, "notified in view": 1} {
		if s.Drawn[kind] != n {
			t.Errorf("%d of %q are drawn, want %d: %v", s.Drawn[kind], kind, n, s.Drawn)
		}
	}
	for _, series := range []string{"goodput", "round trip", "window"} {
		if s.Drawn[series] == 0 {
			t.Errorf("no %s is drawn: %v", series, s.Drawn)
		}
	}
	if got := text(b, "#conns"); !strings.Contains(got, "192.0.2.1 QP 0x000011 ⇄ 192.0.2.2 QP 0x000022") || !strings.Contains(got, "3 repeated") {
		t.Errorf("connections: %q", got)
	}
	if got := text(b, "#findings"); !strings.Contains(got, "WRITE #4 of A failed at 120µs: Remote Access Error.") {
		t.Errorf("findings: %q", got)
	}
	if got := text(b, "#legend"); !strings.Contains(got, "repeated") || strings.Contains(got, "selective ack") {
		t.Errorf("legend: %q", got)
	}

	// A click on the NAK in the panel of PSNs shows its headers.
	var at struct{ X, Y float64 }
	var row []int
	b.Eval("verbenaView.rows('nak')", &row)
	b.Eval("verbenaView.place(verbenaView.rows('nak')[0])", &at)
	b.Click(at.X, at.Y)
	b.Eval("new Promise(f => { const look = () => document.querySelector('#fields h3') ? f() : setTimeout(look, 5); look(); })", nil)
	if s := stateOf(b); s.Selected != row[0] {
		t.Errorf("packet %d is selected, want %d", s.Selected, row[0])
	}
	for _, want := range []string{"Nak: PSN Sequence Error", "RC Acknowledge", "16777215", "0x000011", "WRITE #1: 5 packets, 2 repeated, 40 µs"} {
		if got := text(b, "#fields"); !strings.Contains(got, want) {
			t.Errorf("no %q in the fields: %q", want, got)
		}
	}

	// Its colour is on the canvas, where it is drawn.
	var same bool
	b.Eval(`(() => { const c = document.getElementById('chart'), p = verbenaView.place(verbenaView.rows('nak')[0]);
		const box = c.getBoundingClientRect();
		const d = c.getContext('2d').getImageData(p.x - box.left, p.y - box.top, 1, 1).data;
		const want = getComputedStyle(document.documentElement).getPropertyValue('--nak').trim();
		return want === '#' + [...d].slice(0, 3).map(v => v.toString(16).padStart(2, '0')).join(''); })()`, &same)
	if !same {
		t.Error("the NAK does not have its colour on the canvas")
	}
}

// TestPageZooms: the wheel, a drag, and the finding's line change what is in view.
func TestPageZooms(t *testing.T) {
	b := open(t, read(t, "lossy.pcapng", talk.Lossy(t)))
	all := stateOf(b)
	b.Wheel(700, 300, -200)
	b.Eval("new Promise(requestAnimationFrame)", nil)
	near := stateOf(b)
	if near.To-near.From >= all.To-all.From {
		t.Errorf("the wheel zooms from %v to %v", all, near)
	}
	b.Drag(700, 300, 900, 300)
	if s := stateOf(b); s.From >= near.From || s.To-s.From < (near.To-near.From)*.99 {
		t.Errorf("a drag moves from %v to %v", near, s)
	}
	b.Eval("document.querySelector('#findings li').click()", nil)
	if s := stateOf(b); s.Selected != 16 || s.From > 120000 || s.To < 120000 {
		t.Errorf("the finding leads to %+v", s)
	}
	b.Eval("document.getElementById('reset').click()", nil)
	if s := stateOf(b); s.From != all.From || s.To != all.To {
		t.Errorf("all is %+v, was %+v", s, all)
	}
}

func TestPageFilters(t *testing.T) {
	b := open(t, read(t, "lossy.pcapng", talk.Lossy(t)))
	for filter, want := range map[string]int{"": -1, "repeated": 3, "repeated write": 2, "b": 8, "#1": 7, "psn=4": 2, "psn=16777215": 3, "psn=16777215..0": 6, "psn=6": 0, "len>1000 a": 3, "lost": 3, "marked": 1, "nonsense": -1} {
		f, _ := json.Marshal(filter)
		b.Eval("(() => { const e = document.getElementById('filter'); e.value = "+string(f)+"; e.dispatchEvent(new Event('input')); })()", nil)
		if s := stateOf(b); s.Matches != want {
			t.Errorf("%q lets %d packets through, want %d", filter, s.Matches, want)
		}
		var wrong bool
		b.Eval("document.getElementById('filter').classList.contains('wrong')", &wrong)
		if wrong != (filter == "nonsense") {
			t.Errorf("%q is marked wrong: %v", filter, wrong)
		}
	}
}

// TestPageTakesKeys: n and p step through what the filter lets through, e shows the other end's
// numbers, and Enter chooses a connection.
func TestPageTakesKeys(t *testing.T) {
	b := open(t, read(t, "lossy.pcapng", talk.Lossy(t)))
	press := func(selector, key string) state {
		t.Helper()
		b.Eval("document.querySelector('"+selector+"').dispatchEvent(new KeyboardEvent('keydown', { key: '"+key+"' }))", nil)
		return stateOf(b)
	}
	b.Eval("(() => { const e = document.getElementById('filter'); e.value = 'repeated'; e.dispatchEvent(new Event('input')); })()", nil)
	var rows []int
	b.Eval("verbenaView.rows('repeated')", &rows)
	for i, step := range []struct {
		key  string
		want int
	}{{"n", rows[0]}, {"n", rows[1]}, {"n", rows[2]}, {"n", rows[2]}, {"p", rows[1]}} {
		if s := press("#chart", step.key); s.Selected != step.want {
			t.Errorf("key %d, %s, leads to packet %d, want %d", i, step.key, s.Selected, step.want)
		}
	}
	var before, after []float64
	b.Eval("(verbenaView.draw(), verbenaView.psns())", &before)
	press("#chart", "e")
	b.Eval("verbenaView.psns()", &after)
	if after[0] == before[0] {
		t.Errorf("the numbers are from %v at either end", before)
	}
	b.Eval("verbenaView.view(1e6, 2e6)", nil)
	all := press("#chart", "0")
	b.Eval("verbenaView.view(1e6, 2e6)", nil)
	if s := press(".conn", "Enter"); s.From != all.From {
		t.Errorf("Enter at a connection leads to %+v, want %+v", s, all)
	}
}

// TestPageShowsPSNsOfTheWire: with the wrap, in the text of a packet and at the axis.
func TestPageShowsPSNsOfTheWire(t *testing.T) {
	b := open(t, read(t, "lossy.pcapng", talk.Lossy(t)))
	var got []string
	b.Eval("[0, 2, 10, 16].map(i => verbenaView.text(i).split('\\n')[0])", &got)
	for i, want := range []string{"A → B  sent  PSN 16777214", "A → B  sent  PSN 0", "B → A  cnp", "B → A  refusal  PSN 4"} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
	var axis []float64
	b.Eval("(verbenaView.draw(), verbenaView.psns())", &axis)
	if axis[0] != 0xfffffe || axis[1] != 4 {
		t.Errorf("the axis is from %v", axis)
	}
}

// TestPageOfFarTimes: frames whose times are decades apart are drawn, each at the closest.
func TestPageOfFarTimes(t *testing.T) {
	c := talk.New(t)
	for i, years := range []time.Duration{0, -36, 36} {
		c.At = years * 365 * 24 * time.Hour
		c.Packet(false, roce.Packet{BTH: roce.BTH{Opcode: roce.RCSendOnly, DestQP: ib.QPN(100 + i)}})
	}
	b := open(t, read(t, "far.pcapng", c.Bytes()))
	for i := range 3 {
		b.Eval("document.querySelectorAll('.conn')["+strconv.Itoa(i)+"].click()", nil)
		if s := stateOf(b); s.Conn != i || s.Drawn["sent"] != 1 || !(s.To > s.From) {
			t.Errorf("%+v", s)
		}
		b.Eval("(t => verbenaView.view(t, t))(verbenaView.time("+strconv.Itoa(i)+"))", nil)
		if s := stateOf(b); s.Drawn["sent"] != 1 || !(s.To > s.From) {
			t.Errorf("at the closest: %+v", s)
		}
	}
}

func TestPageOfAnEmptyCapture(t *testing.T) {
	b := open(t, read(t, "empty.pcapng", talk.New(t).Bytes()))
	if s := stateOf(b); s.Drawn["empty"] != 1 {
		t.Errorf("%+v", s)
	}
}

// TestPageThinsOut: of many packets Go's levels are drawn, and every trouble among them: those sent
// again, and those that were taken for lost.
func TestPageThinsOut(t *testing.T) {
	c := talk.New(t)
	const n = 60000
	for i := range uint32(n) {
		c.Send(roce.RCSendOnly, i, 100)
		if i%10000 == 5000 {
			c.Send(roce.RCSendOnly, i, 100)
		}
		if i%64 == 63 {
			c.Ack(i)
		}
	}
	b := open(t, read(t, "many.pcapng", c.Bytes()))
	s := stateOf(b)
	if !s.Thinned || s.Drawn["buckets"] < 900 || s.Drawn["repeated"] != 6 || s.Drawn["sent"] != 6 {
		t.Errorf("%+v", s)
	}
	b.Eval("verbenaView.view(1e6, 2e6)", nil)
	if s := stateOf(b); s.Thinned || s.Drawn["sent"] < 900 {
		t.Errorf("of a part: %+v", s)
	}
}

// markup is a name and a comment that would be a script, if anything took it for markup.
const markup = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">{{.Script}}`

// TestPageOfAHostileCapture: names and bytes from packets are text, whatever they are.
func TestPageOfAHostileCapture(t *testing.T) {
	c := talk.New(t)
	c.Comment = markup
	c.Send(roce.RCSendOnly, 1, 10)
	c.Comment = "rtt_ns=99999999999999999999 window_bytes=-1 qpn=<b>"
	c.Packet(true, roce.Packet{BTH: roce.BTH{Opcode: roce.UDSendOnly, DestQP: ib.QP1}, Payload: []byte(markup + strings.Repeat("\xff", 256))})
	c.Send(roce.Opcode(0xff), 2, 10)
	tl := read(t, markup+".pcapng", c.Bytes())
	if _, err := tl.AddCalls(strings.NewReader(`time=2023-11-14T22:13:20.000001Z level=INFO msg="` + strings.ReplaceAll(markup, `"`, `\"`) + `" a=b` + "\n")); err != nil {
		t.Fatal(err)
	}
	tl.Files[0].Err = &os.PathError{Op: markup, Path: "\xff\xfe", Err: os.ErrInvalid}
	b := open(t, tl)
	b.Eval("document.querySelector('.conn').click()", nil)
	var at struct{ X, Y float64 }
	b.Eval("verbenaView.place(0)", &at)
	b.Click(at.X, at.Y)
	b.Eval("new Promise(f => { const look = () => document.querySelector('#fields h3') ? f() : setTimeout(look, 5); look(); })", nil)
	if got := text(b, "#fields"); !strings.Contains(got, markup) {
		t.Errorf("the comment is not shown: %q", got)
	}
	var found struct {
		Hacked       bool
		Images, Tags int
	}
	b.Eval("({Hacked: 'hacked' in window, Images: document.images.length, Tags: document.scripts.length})", &found)
	if found.Hacked || found.Images != 0 || found.Tags != 4 {
		t.Errorf("markup of the capture has become the page's: %+v", found)
	}
}

// withCalls returns a conversation whose first operation has its calls, and one with a text.
func withCalls(t *testing.T, text string) *timeline.Timeline {
	c := talk.New(t)
	c.Call("level=INFO msg=ibv_create_qp qp.qpn=0x000011", false)
	c.Call("level=DEBUG msg=ibv_post_send qpn=0x000011 wr_id=7 opcode=SEND bytes=10 note="+text, false)
	c.Send(roce.RCSendOnly, 1, 10)
	c.Ack(1)
	c.Call("level=WARN msg=completion qpn=0x000011 wr_id=7 status="+text, true)
	return read(t, "calls.pcapng", c.Bytes())
}

// TestPageShowsCallsOfOperations: the calls of the capture are marked at an operation's span, and
// in the detail of its packets, as text whatever they have.
func TestPageShowsCallsOfOperations(t *testing.T) {
	b := open(t, withCalls(t, strconv.Quote(markup)))
	if s := stateOf(b); s.Drawn["posted"] != 1 || s.Drawn["completed"] != 1 || s.Drawn["calls"] == 0 {
		t.Errorf("%+v", s)
	}
	b.Eval("verbenaView.view(-5000, 5000)", nil)
	if s := stateOf(b); s.Drawn["calls"] != 3 {
		t.Errorf("%+v", s)
	}
	var at struct{ X, Y float64 }
	b.Eval("verbenaView.place(0)", &at)
	b.Click(at.X, at.Y)
	b.Eval("new Promise(f => { const look = () => document.querySelector('#fields h3') ? f() : setTimeout(look, 5); look(); })", nil)
	got := text(b, "#fields")
	for _, want := range []string{"posted 1 µs before: ibv_post_send qpn=0x000011 wr_id=7 opcode=SEND", "completed 1 µs after: completion qpn=0x000011 wr_id=7 status=" + markup} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	var found struct {
		Hacked bool
		Images int
	}
	b.Eval("({Hacked: 'hacked' in window, Images: document.images.length})", &found)
	if found.Hacked || found.Images != 0 {
		t.Errorf("markup of a call has become the page's: %+v", found)
	}
}

// TestPolicyHolds: the page could not load or run anything else, if something tried.
func TestPolicyHolds(t *testing.T) {
	tl := read(t, "x", talk.Lossy(t))
	b := browser.Start(t, 800, 600)
	file := filepath.Join(t.TempDir(), "page.html")
	if err := writeFile(file, tl); err != nil {
		t.Fatal(err)
	}
	b.Open("file://" + file)
	b.Eval("verbenaView.ready", nil)
	var refused []string
	b.Eval(`(async () => {
		const out = [];
		document.addEventListener('securitypolicyviolation', e => out.push(e.effectiveDirective));
		const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);
		const i = document.createElement('img'); i.src = 'http://192.0.2.1/x'; document.body.append(i);
		try { await fetch('http://192.0.2.1/x'); } catch { }
		const step = f => setTimeout(f, 0);
		while (out.length < 3) await new Promise(step);
		return out.concat('hacked' in window ? ['hacked'] : []);
	})()`, &refused)
	if got := strings.Join(refused, " "); !strings.Contains(got, "script-src") || !strings.Contains(got, "img-src") || !strings.Contains(got, "connect-src") || strings.Contains(got, "hacked") {
		t.Errorf("refused: %v", refused)
	}
}

// TestPageOfCaptures opens captures of the kernel's drivers.
func TestPageOfCaptures(t *testing.T) {
	for _, name := range []string{"rxe-rping", "rxe-op-rnr", "rxe-op-reject", "rxe-pp-ud", "siw-read", "siw-op-writebad"} {
		t.Run(name, func(t *testing.T) {
			capture, err := os.ReadFile("../../../testdata/captures/" + name + ".pcap")
			if err != nil {
				t.Fatal(err)
			}
			tl := read(t, name+".pcap", capture)
			b := open(t, tl)
			if s := stateOf(b); len(s.Drawn) < 2 || s.Drawn["empty"] != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDarkIsReadable takes the page's other colours.
func TestDarkIsReadable(t *testing.T) {
	b := open(t, read(t, "lossy.pcapng", talk.Lossy(t)))
	var colours [2]string
	for i := range colours {
		b.Eval("getComputedStyle(document.body).backgroundColor", &colours[i])
		b.Eval("document.getElementById('theme').click()", nil)
	}
	if colours[0] == colours[1] {
		t.Errorf("light and dark are both %s", colours[0])
	}
	b.Eval("document.getElementById('theme').click()", nil)
}

// TestPageShowsLossOverIWARP: over TCP and over UDP all panels open, and repeats are drawn.
func TestPageShowsLossOverIWARP(t *testing.T) {
	for name, capture := range map[string][]byte{"iWARP": talk.LossyIWARP(t), "TRP": talk.LossyTRP(t)} {
		t.Run(name, func(t *testing.T) {
			b := open(t, read(t, name+".pcapng", capture))
			s := stateOf(b)
			for kind, n := range map[string]int{"sent": 9, "repeated": 2, "lost": 2, "operations": 3} {
				if s.Drawn[kind] != n {
					t.Errorf("%d of %q are drawn, want %d: %v", s.Drawn[kind], kind, n, s.Drawn)
				}
			}
			for _, series := range []string{"goodput", "round trip", "window"} {
				if s.Drawn[series] == 0 {
					t.Errorf("no %s is drawn: %v", series, s.Drawn)
				}
			}
			if got := text(b, "#conns"); !strings.Contains(got, name+" 192.0.2.1:50000 ⇄ 192.0.2.2:7174") || !strings.Contains(got, "2 repeated") {
				t.Errorf("connections: %q", got)
			}
			if got := text(b, "#findings"); !strings.Contains(got, "A sent 2 packets again, in 2 rounds, 1 of them unasked, by a timer.") {
				t.Errorf("findings: %q", got)
			}
			// Bytes are in flight while nothing happens, before the timer.
			var colours []string
			b.Eval("verbenaView.colours('window', -5e3, 500e3)", &colours)
			if colours[0] == colours[1] {
				t.Errorf("the window is empty while bytes are in flight: %q", colours)
			}
			// A click on a segment that was sent again shows the operation above it.
			var at struct{ X, Y float64 }
			b.Eval("verbenaView.place(verbenaView.rows('repeated')[0])", &at)
			b.Click(at.X, at.Y)
			b.Eval("new Promise(f => { const look = () => document.querySelector('#fields h3') ? f() : setTimeout(look, 5); look(); })", nil)
			var row []int
			b.Eval("verbenaView.rows('repeated')", &row)
			if s := stateOf(b); s.Selected != row[0] {
				t.Errorf("packet %d is selected, want %d", s.Selected, row[0])
			}
			if got := text(b, "#fields"); !strings.Contains(got, "WRITE #2: ") {
				t.Errorf("no operation in the fields: %q", got)
			}
		})
	}
}

// TestPageOfBothEnds: captures of both ends are one connection, whose packets are drawn from when
// they left to when they arrived. One that did not arrive is lost.
func TestPageOfBothEnds(t *testing.T) {
	ends := talk.Ends{Ahead: 100 * time.Millisecond, Fate: func(n int) talk.Fate {
		return talk.Fate{Flight: time.Duration(5+n%2) * time.Microsecond, Lost: n == 1}
	}}
	one, other := ends.Split(t, talk.Lossy(t))
	b := open(t, read(t, markup, one, other))
	if s := stateOf(b); s.Drawn["lost"] != 1 || s.Drawn["repeated"] != 3 {
		t.Errorf("%v", s.Drawn)
	}
	for i, want := range []int{0: 5000, 2: 5000, 3: 6000} {
		var w struct {
			Leaves, Arrives float64
			Down            bool
		}
		b.Eval("verbenaView.wire("+strconv.Itoa(i)+")", &w)
		if d := w.Arrives - w.Leaves; want > 0 && (d < float64(want)-600 || d > float64(want)+600 || w.Down != (i != 3)) {
			t.Errorf("packet %d: %+v", i, w)
		}
	}
	if got := text(b, "#findings"); !strings.Contains(got, "is 100ms ahead") || !strings.Contains(got, "has it: 1 packet of A.") || !strings.Contains(got, markup) {
		t.Errorf("findings: %q", got)
	}
	if got := text(b, "#conns"); strings.Count(got, "⇄") != 1 || !strings.Contains(got, " + ") {
		t.Errorf("connections: %q", got)
	}
	var said string
	b.Eval("verbenaView.text(1)", &said)
	if !strings.Contains(said, "lost: the receiver has not captured it") {
		t.Errorf("%q", said)
	}
	var images int
	b.Eval("document.images.length + ('hacked' in window ? 1 : 0)", &images)
	if images != 0 {
		t.Error("a file's name has become markup")
	}
}
