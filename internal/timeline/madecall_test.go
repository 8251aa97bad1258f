// SPDX-License-Identifier: BSD-2-Clause

package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"verbena/internal/testkit/talk"
	"verbena/internal/wire/roce"
)

// posted writes the calls of a process that creates queue pair A and posts work requests.
func posted(c *talk.Capture, created bool, posts ...string) {
	if created {
		c.Call("level=INFO msg=ibv_create_qp device=d qp.qpn=0x000011 qp.type=RC qp.state=RESET", false)
	}
	for _, p := range posts {
		c.Call("level=DEBUG msg=ibv_post_send device=d qpn=0x000011 "+p, false)
	}
}

func completed(c *talk.Capture, text string, failed bool) {
	c.Call("level=DEBUG msg=completion device=d qpn=0x000011 "+text, failed)
}

// calls describes the calls of each operation of A by their work requests.
func calls(tl *Timeline) string {
	of := func(c uint32) string {
		if c == None {
			return "-"
		}
		_, id, _ := strings.Cut(tl.Calls[c].Text, "wr_id=")
		id, _, _ = strings.Cut(id, " ")
		return id
	}
	var list []string
	for _, o := range tl.Ops {
		if !o.OfB {
			list = append(list, of(o.Posted)+"/"+of(o.Completed))
		}
	}
	return strings.Join(list, " ")
}

// An operation has the calls that posted and completed it, where the capture tells.
func TestCallsOfOperations(t *testing.T) {
	const write, send = " opcode=RDMA_WRITE bytes=100", " opcode=SEND bytes=64"
	story := func(c *talk.Capture) {
		c.Send(roce.RCRDMAWriteOnly, 1, 100)
		c.Send(roce.RCSendOnly, 2, 64)
		c.Send(roce.RCRDMAWriteOnly, 3, 100)
		c.Ack(3)
	}
	for name, o := range map[string]struct {
		write func(c *talk.Capture)
		want  string
	}{
		"all": {func(c *talk.Capture) {
			posted(c, true, "wr_id=7"+write, "wr_id=8 opcode=LOCAL_INV bytes=0", "wr_id=9"+send, "wr_id=7"+write)
			story(c)
			completed(c, "wr_id=7 status=success opcode=RDMA_WRITE", false)
			completed(c, "wr_id=9 status=success opcode=RECV bytes=9", false)
			completed(c, "wr_id=8 status=success opcode=LOCAL_INV", false)
			completed(c, "wr_id=9 status=success opcode=SEND", false)
		}, "7/7 9/9 7/-"},
		"unsignaled": {func(c *talk.Capture) {
			posted(c, true, "wr_id=0"+write+" signaled=false", "wr_id=0"+send+" signaled=false", "wr_id=0"+write)
			story(c)
			completed(c, "wr_id=0 status=success opcode=RDMA_WRITE", false)
		}, "0/- 0/- 0/0"},
		"failed": {func(c *talk.Capture) {
			posted(c, true, "wr_id=1"+write+" signaled=false")
			c.Call("level=WARN msg=ibv_post_send qpn=0x000011 wr_id=5 opcode=SEND bytes=64 error=full", true)
			posted(c, false, "wr_id=2"+send, "wr_id=3"+write)
			c.Call("level=DEBUG msg=ibv_post_recv device=d qpn=0x000011 wr_id=3 bytes=9", false)
			story(c)
			completed(c, `wr_id=1 status="remote access error"`, true)
			completed(c, `wr_id=3 status="work request flushed"`, false) // the queue is not known
		}, "1/1 2/- 3/-"},
		"not from the start": {func(c *talk.Capture) { posted(c, false, "wr_id=7"+write); story(c) }, "-/- -/- -/-"},
		"another operation":  {func(c *talk.Capture) { posted(c, true, "wr_id=7"+write, "wr_id=8"+write); story(c) }, "7/- -/- -/-"},
		"another size":       {func(c *talk.Capture) { posted(c, true, "wr_id=7 opcode=RDMA_WRITE bytes=99"); story(c) }, "-/- -/- -/-"},
		"posted later":       {func(c *talk.Capture) { story(c); posted(c, true, "wr_id=7"+write) }, "-/- -/- -/-"},
		"another queue pair": {func(c *talk.Capture) {
			posted(c, true)
			c.Call("msg=ibv_post_send qpn=0x000033 wr_id=1"+write, false)
			story(c)
		}, "-/- -/- -/-"},
		"a number given again": {func(c *talk.Capture) { posted(c, true); posted(c, true, "wr_id=7"+write); story(c) }, "-/- -/- -/-"},
		"reset": {func(c *talk.Capture) {
			posted(c, true, "wr_id=7"+write)
			c.Call("level=INFO msg=ibv_modify_qp qp.qpn=0x000011 qp.type=RC qp.state=RESET", false)
			story(c)
		}, "-/- -/- -/-"},
		"calls are missing": {func(c *talk.Capture) {
			posted(c, true, "wr_id=7"+write)
			c.Call(`level=WARN msg="calls are missing" calls=1`, true)
			story(c)
		}, "-/- -/- -/-"},
		"a packet is missing": {func(c *talk.Capture) {
			posted(c, true, "wr_id=7"+write, "wr_id=8"+write, "wr_id=9"+write)
			c.Send(roce.RCRDMAWriteOnly, 1, 100)
			c.Send(roce.RCRDMAWriteOnly, 3, 100)
			c.Ack(3)
		}, "7/- -/-"},
		"came late": {func(c *talk.Capture) {
			posted(c, true, "wr_id=7"+write, "wr_id=8"+send, "wr_id=9"+write)
			c.Send(roce.RCRDMAWriteOnly, 1, 100)
			c.Send(roce.RCRDMAWriteOnly, 3, 100)
			c.Send(roce.RCSendOnly, 2, 64)
			c.Ack(3)
		}, "7/- 9/- 8/-"},
	} {
		c := talk.New(t)
		o.write(c)
		tl := read(t, c.Bytes())
		if got := calls(tl); got != o.want {
			t.Errorf("%s: %s, want %s", name, got, o.want)
		}
		// A log beside them moves them.
		tl.AddCalls(strings.NewReader("time=2023-11-14T22:13:19Z level=INFO msg=x\n"))
		if got := calls(tl); got != o.want || tl.Calls[0].Name != "x" {
			t.Errorf("%s, with a log: %s, want %s", name, got, o.want)
		}
	}
}

// Calls of a capture have the form of those of a log, and the same clock as the packets.
func TestCallsOfACapture(t *testing.T) {
	c := talk.New(t)
	c.Call("level=INFO msg=ibv_open_device device=d", false)
	c.Send(roce.RCSendOnly, 1, 64)
	c.Ack(1)
	c.Call(`level=WARN msg=completion qpn=0x000022 status="remote access error"`, true)
	c.Call("no call", false)
	c.Call("a=b", false)
	tl := read(t, c.Bytes())
	want := []Call{{-1000, -1, "ibv_open_device", "ibv_open_device device=d", false},
		{2000, 0, "completion", "completion qpn=0x000022 status=remote access error", true}}
	if fmt.Sprint(tl.Calls) != fmt.Sprint(want) || tl.Files[0].Frames != 6 {
		t.Errorf("%+v, %d frames", tl.Calls, tl.Files[0].Frames)
	}
}

// Calls that only look like calls, or are of another time, do no harm.
func TestHostileCalls(t *testing.T) {
	c := talk.New(t)
	for i, text := range []string{"", "=", `msg="`, `msg="\xff\x00"`, "msg=ibv_post_send qpn=99999999999999999999 wr_id=", "msg=completion qpn=-1",
		"msg=completion qpn=0x000011 wr_id=1 status=success", "msg=ibv_post_recv qpn=0x000011 wr_id=1", strings.Repeat("msg=x ", 1<<13), "msg=<script>"} {
		c.At = time.Duration(i-5) * 50 * 365 * 24 * time.Hour
		c.Call(text, false)
	}
	c.At = 0
	talk.Story(c)
	tl := read(t, c.Bytes())
	if got := calls(tl); got != "-/- -/- -/- -/-" || len(tl.Calls) < 4 {
		t.Errorf("%s of %+v", got, tl.Calls)
	}
}

// TestForgedCallsAreQuick: the time for calls that fit no others is in proportion to their number.
func TestForgedCallsAreQuick(t *testing.T) {
	const calls = 1 << 16
	call := func(text string) madeCall { return madeCall{list: textAttributes(text)} }
	post := call("level=DEBUG msg=ibv_post_send qpn=1 wr_id=1 opcode=SEND bytes=1 signaled=false")
	for name, each := range map[string]madeCall{
		"other": call("level=DEBUG msg=completion qpn=1 wr_id=2 status=success opcode=SEND"),
		"same":  call("level=DEBUG msg=completion qpn=1 wr_id=1 status=success opcode=SEND"),
	} {
		queues := sendQueues{map[queueKey]*sendQueue{}, map[int][]*sendQueue{}}
		create := call("level=INFO msg=ibv_create_qp qp.qpn=1")
		queues.of(create).take(&create, 0)
		q := queues.of(post)
		for range calls {
			q.take(&post, 1)
		}
		began := time.Now()
		for range calls {
			q.take(&each, 2)
		}
		if took := time.Since(began); took > 2*time.Second || q.next != 0 {
			t.Errorf("%s: %d completions took %v, the next post is %d", name, calls, took, q.next)
		}
	}
	queues := sendQueues{map[queueKey]*sendQueue{}, map[int][]*sendQueue{}}
	began := time.Now()
	for i := range calls {
		q := queues.of(call(fmt.Sprintf("level=INFO msg=ibv_create_qp qp.qpn=%d", i)))
		queues.lose(0)
		queues.lose(1)
		if took := time.Since(began); took > 5*time.Second || !q.broken {
			t.Fatalf("%d missing calls took %v, broken %v", i, took, q.broken)
		}
	}
}
