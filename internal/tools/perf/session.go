// SPDX-License-Identifier: BSD-2-Clause

package perf

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"time"

	"verbena/internal/tools/cli"
)

// session is one client and one server over one TCP connection.
type session struct {
	o      *options
	ctl    *control
	e      *endpoint
	peer   *Offer
	report reporter
	errOut io.Writer
}

func gidText(g GIDText) string { return netip.AddrFrom16(g).Unmap().String() }

// runServer waits for one client and runs the measurement that it asks for.
func runServer(ctx context.Context, o *options, out, errOut io.Writer) error {
	if o.plot != "" {
		return cli.Usagef("--plot: the client draws; name the server, or leave it out")
	}
	l, err := cli.Listen(ctx, o.port)
	if err != nil {
		return err
	}
	defer l.Close()
	dev, err := o.dev.Open() // before a client comes: errors show at once
	if err != nil {
		return err
	}
	defer dev.Close()
	if _, err := localAddress(dev, o); err != nil {
		return err
	}
	if o.listening != nil {
		o.listening(l.Addr())
	}
	conn, err := cli.Accept(ctx, l)
	if err != nil {
		return err
	}
	l.Close()
	defer conn.Close()
	s := &session{o: o, ctl: newControl(conn), report: reporter{w: out, o: o}, errOut: errOut}
	defer s.ctl.closeWith(ctx)()
	m, err := s.ctl.first(kindHello)
	if err != nil {
		return s.ctl.refuse(err)
	}
	if m.Hello.Op != o.test.op || m.Hello.Metric != o.test.metric {
		return s.ctl.refuse(fmt.Errorf("the client measures %s %s, the server %s %s: run the "+
			"same on both sides", m.Hello.Op, m.Hello.Metric, o.test.op, o.test.metric))
	}
	if mine := string(dev.Info().Kind); m.Hello.Kind != mine && m.Hello.Kind != "" {
		return s.ctl.refuse(fmt.Errorf("the client's device is of kind %s, the server's of %s: "+
			"choose those of one kind with -d on both sides", m.Hello.Kind, mine))
	}
	o.adopt(m.Hello)
	if s.e, err = openEndpoint(o, dev); err != nil {
		return s.ctl.refuse(err)
	}
	defer s.e.close()
	if err := s.connect(ctx); err != nil {
		return s.ctl.refuse(err)
	}
	return s.serveSteps(ctx)
}

// runClient measures.
func runClient(ctx context.Context, o *options, out, errOut io.Writer) error {
	dev, err := o.dev.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	o.rdmacm = o.rdmacm || dev.Info().Kind.IsIWARP()
	e, err := openEndpoint(o, dev)
	if err != nil {
		return err
	}
	defer e.close()
	conn, err := cli.Dial(ctx, o.host, o.port,
		fmt.Sprintf("verbena perf %s %s", o.test.op, o.test.metric))
	if err != nil {
		return err
	}
	defer conn.Close()
	plot, err := o.plotFile() // before anything is measured
	if err != nil {
		return err
	}
	defer closePlot(plot)
	s := &session{o: o, ctl: newControl(conn), e: e, report: reporter{w: out, o: o}, errOut: errOut}
	defer s.ctl.closeWith(ctx)()
	hello := o.hello()
	hello.Kind = string(dev.Info().Kind)
	if err := s.ctl.send(&Message{Kind: kindHello, Hello: hello}); err != nil {
		return err
	}
	if err := s.connect(ctx); err != nil {
		return s.ctl.refuse(err)
	}
	for _, size := range o.sizes() {
		if err := s.step(ctx, size); err != nil {
			return s.ctl.refuse(err)
		}
	}
	if err := s.ctl.send(&Message{Kind: kindBye}); err != nil {
		return err
	}
	if err := s.report.end(); err != nil || plot == nil {
		return err
	}
	return s.report.draw(plot)
}

// connect exchanges offers and connects the queue pairs. The server offers
// first; when the client is told "ready" both sides can send.
func (s *session) connect(ctx context.Context) error {
	server := s.o.host == ""
	c := s.connector()
	mine, err := c.makeQPs(ctx)
	if err != nil {
		return err
	}
	local := s.e.offer(mine)
	if server {
		if err := s.ctl.send(&Message{Kind: kindOffer, Offer: local}); err != nil {
			return err
		}
	}
	expect := s.ctl.expect
	if !server { // the first that it says
		expect = s.ctl.first
	}
	m, err := expect(kindOffer)
	if err != nil {
		return err
	}
	s.peer = m.Offer
	if err := s.e.checkPeer(s.peer); err != nil {
		return err
	}
	if !server {
		if err := s.ctl.send(&Message{Kind: kindOffer, Offer: local}); err != nil {
			return err
		}
	}
	if err := c.connectQPs(ctx, s.peer); err != nil {
		return err
	}
	s.report.begin(s.e.dev.Info().Name, local, s.peer)
	if server {
		return s.ctl.send(&Message{Kind: kindReady})
	}
	_, err = s.ctl.expect(kindReady)
	return err
}

// serveSteps follows the client from size to size.
func (s *session) serveSteps(ctx context.Context) error {
	for first := true; ; first = false {
		m, err := s.ctl.receive()
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case m.Kind == kindBye:
			if s.o.format() == formatTable {
				fmt.Fprint(s.report.w, rule)
			}
			return nil
		case m.Kind != kindStep || m.Size > s.e.largest:
			return s.ctl.refuse(fmt.Errorf("the peer sent %q of %d bytes where a step was due",
				m.Kind, m.Size))
		}
		if err := s.ready(m.Size, m.Iters, first); err != nil {
			return s.ctl.refuse(err)
		}
		w := s.ctl.watch(ctx)
		if err := s.ctl.send(&Message{Kind: kindStep, Size: m.Size}); err != nil {
			return err
		}
		if err := s.answer(w, m.Size, m.Iters); err != nil {
			return s.ctl.refuse(err)
		}
	}
}

// ready prepares a size before the peer may send: receives are posted once,
// for all sizes.
func (s *session) ready(size int, iters int64, first bool) error {
	s.e.prepare(size, iters, s.peer)
	*s.e.lastByte(size) = 0
	if s.o.test.op != "send" || !first {
		return nil
	}
	for i := range s.e.flows {
		if err := s.e.flows[i].postReceives(i, s.e.receiveDepth()); err != nil {
			return err
		}
	}
	return nil
}

// answer is the server's part of a step.
func (s *session) answer(w *watch, size int, iters int64) error {
	done := func(r BWResult) error { return s.ctl.send(&Message{Kind: kindDone, Result: &r}) }
	if !s.o.test.bandwidth() {
		if err := newPinger(s.e, w, size, iters).pong(); err != nil {
			return err
		}
		if _, err := w.wait(); err != nil {
			return err
		}
		return done(BWResult{})
	}
	st := &stream{e: s.e, w: w, size: int64(size), sends: s.o.bidir,
		receives: s.o.test.op == "send"}
	if st.sends || st.receives {
		if err := st.run(done); err != nil {
			return err
		}
	}
	if _, err := w.wait(); err != nil {
		return err
	}
	switch {
	case s.counts():
		arrived, err := st.drain()
		if err != nil {
			return err
		}
		return s.ctl.send(&Message{Kind: kindCount, Result: &BWResult{Messages: arrived}})
	case st.sends || st.receives:
		return nil
	}
	return done(BWResult{})
}

// progress returns the display of a step's progress, and the function to call with the number of
// messages. Their total is iters, or 0 for as long as the duration.
func (s *session) progress(size int, iters int64) (*cli.Progress, func(int64)) {
	what := fmt.Sprintf("%d bytes", size)
	if iters > 0 {
		p := cli.NewProgress(s.errOut, what, iters*int64(s.o.qps))
		return p, p.Set
	}
	start := time.Now()
	p := cli.NewProgress(s.errOut, what, s.o.duration.Milliseconds())
	return p, func(int64) { p.Set(time.Since(start).Milliseconds()) }
}

// step is the client's part.
func (s *session) step(ctx context.Context, size int) error {
	iters := s.e.iterations(size)
	if err := s.e.outruns(iters); err != nil {
		return err
	}
	if err := s.ready(size, iters, size == s.o.sizes()[0]); err != nil {
		return err
	}
	if err := s.ctl.send(&Message{Kind: kindStep, Size: size, Iters: iters}); err != nil {
		return err
	}
	if _, err := s.ctl.expect(kindStep); err != nil {
		return err
	}
	w := s.ctl.watch(ctx)
	progress, set := s.progress(size, iters)
	defer progress.Done()
	if s.o.test.bandwidth() {
		return s.bandwidthStep(w, size, progress, set)
	}
	p := newPinger(s.e, w, size, iters)
	p.progress = set
	result, err := p.ping()
	if err != nil {
		return p.ended(err)
	}
	if err := s.ctl.send(&Message{Kind: kindDone}); err != nil {
		return err
	}
	if _, err := w.wait(); err != nil {
		return err
	}
	s.report.latency(result)
	return nil
}

// bandwidthStep is step of a test of bandwidth, after both sides have begun it.
func (s *session) bandwidthStep(w *watch, size int, progress *cli.Progress, set func(int64)) error {
	var result BWResult
	st := &stream{e: s.e, w: w, size: int64(size), sends: true, progress: set,
		receives: s.o.bidir && s.o.test.op == "send"}
	err := st.run(func(r BWResult) error {
		result = r
		return s.ctl.send(&Message{Kind: kindDone, Result: &r})
	})
	if err != nil {
		return err
	}
	m, err := w.wait()
	if err != nil {
		return err
	}
	if s.o.bidir && m.Result != nil {
		result = result.plus(*m.Result)
	}
	progress.Done()
	row := bwRow(size, result, s.o.gbits)
	if s.counts() {
		here, err := st.drain()
		if err != nil {
			return err
		}
		there, err := s.ctl.expect(kindCount)
		if err != nil {
			return err
		}
		arrived := here + there.Result.Messages
		row.Arrived = &arrived
	}
	s.report.bandwidth(row)
	return nil
}

// counts reports whether the receivers count messages, as fewer may arrive than were sent.
func (s *session) counts() bool {
	return !s.o.service.reliable() && s.o.test.bandwidth() && s.o.test.op == "send"
}
