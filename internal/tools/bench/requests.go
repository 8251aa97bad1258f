// SPDX-License-Identifier: BSD-2-Clause

package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"verbena/internal/sys/freeport"
)

// traffic is a load of the request/response programs: c/requests.h describes them. Go's
// are in package requests.
type traffic struct {
	language string // C, Go, Go net or Go HTTP
	value    int    // bytes of an answer
	clients  int    // connections
	depth    int    // outstanding requests of each
	on       way    // between the two processes
}

// requestSeconds is the length of a round, calledSeconds of one that counts system calls.
const (
	requestSeconds = 0.6
	calledSeconds  = 0.3
)

// exchange has the results of a round of requests.
type exchange struct {
	setup   time.Duration // to connect all
	answers float64
	seconds float64
	server  usage
	client  usage
	calls   float64 // system calls of the server
}

// figures are answers a second, CPU µs and context switches of the server for each
// answer.
func (x exchange) figures() []float64 {
	return []float64{x.answers / x.seconds, x.server.cpu.Seconds() * 1e6 / x.answers,
		float64(x.server.switches) / x.answers}
}

// group compares a load over verbs with the same over TCP.
func (q traffic) group() group {
	name := q.name()
	faster := 1.0
	if q.value >= 64<<10 && (q.language == "C" || q.language == "Go") {
		faster = 1.5
	}
	over := func(verbs bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			x, err := q.round(ctx, r, verbs, span{seconds: requestSeconds})
			return x.figures(), err
		}
	}
	return group{
		rows: []row{
			{name + ": requests", "/s", "TCP", goal{bound: faster, atLeast: true, ratio: true}},
			{name + ": server CPU a request", "µs", "TCP", goal{bound: 1, ratio: true}},
			{name + ": server switches a request", "", "TCP", goal{}},
		},
		ours: over(true), peer: over(false),
	}
}

// calls compares the system calls of a load.
func (q traffic) calls() group {
	over := func(verbs bool) func(context.Context, *run) ([]float64, error) {
		return func(ctx context.Context, r *run) ([]float64, error) {
			x, err := q.round(ctx, r, verbs, span{seconds: calledSeconds, count: true})
			if errors.Is(err, errLeftOut) {
				return []float64{missing}, nil
			}
			return []float64{x.calls / x.answers}, err
		}
	}
	return group{rows: []row{{q.name() + ": server system calls a request", "", "TCP",
		goal{bound: 1, more: true}}}, ours: over(true), peer: over(false)}
}

func (q traffic) name() string {
	name := fmt.Sprintf("%s %s, %s, %d clients", q.language, q.on, bytesText(q.value), q.clients)
	if q.clients == 1 {
		name = strings.TrimSuffix(name, "s")
	}
	if q.depth > 1 {
		name += fmt.Sprintf(", %d outstanding", q.depth)
	}
	return name
}

func bytesText(n int) string {
	switch {
	case n >= mebibyte:
		return fmt.Sprintf("%d MiB", n/mebibyte)
	case n >= 1024:
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// span is the part of a round that is measured.
type span struct {
	settle  time.Duration // before it
	seconds float64
	count   bool // count the server's system calls
}

// round runs a server and its clients.
func (q traffic) round(ctx context.Context, r *run, verbs bool, measured span) (
	x exchange, err error) {
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	ends, err := q.on.ends(ctx, r)
	if err != nil {
		return x, err
	}
	program, err := q.program(ctx, r, verbs, ends.kind)
	if err != nil {
		return x, err
	}
	port, err := freeport.Free()
	if err != nil {
		return x, err
	}
	args := []string{ends.host, strconv.Itoa(port), strconv.Itoa(q.value), strconv.Itoa(q.clients),
		strconv.Itoa(q.depth), fmt.Sprint(measured.seconds)}
	start := func(in []string, side string) (*partner, error) {
		return startPartner(ctx, slices.Concat(in, program, []string{side}, args))
	}
	server, err := start(ends.server, "server")
	if err != nil {
		return x, err
	}
	defer func() { err = server.stop(err) }()
	if _, _, err := server.hears("ready"); err != nil {
		return x, err
	}
	client, err := start(ends.client, "client")
	if err != nil {
		return x, err
	}
	defer func() { err = client.end(err) }()
	_, setup, err := client.hears("connected")
	if err != nil {
		return x, err
	}
	x.setup = time.Duration(setup * float64(time.Second))
	time.Sleep(measured.settle)
	err = q.measure(ctx, r, &x, server, client, measured.count)
	return x, err
}

// measure has the client begin, and adds to x what both sides do until it has ended.
func (q traffic) measure(ctx context.Context, r *run, x *exchange, server, client *partner,
	count bool) error {
	var counter *callCounter
	if count {
		dir, err := r.scratch()
		if err == nil {
			counter, err = countCalls(ctx, dir, server.pid())
		}
		if err != nil {
			return err
		}
	}
	serverBefore, clientBefore, err := usageOfBoth(server, client)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(client.stdin, "go\n"); err != nil {
		return err
	}
	if x.answers, x.seconds, err = client.hears("answered"); err != nil {
		return err
	}
	serverAfter, clientAfter, err := usageOfBoth(server, client)
	x.server, x.client = serverAfter.since(serverBefore), clientAfter.since(clientBefore)
	if counter != nil {
		var e error
		x.calls, e = counter.count()
		err = errors.Join(err, e)
	}
	if x.answers == 0 && q.depth > 0 {
		err = errors.Join(err, errors.New("nothing was answered"))
	}
	return err
}

func usageOfBoth(server, client *partner) (usage, usage, error) {
	s, err := usageOf(server.pid())
	c, e := usageOf(client.pid())
	return s, c, errors.Join(err, e)
}

// inGo are the programs of package requests; an empty name stands for the kind of devices.
var inGo = map[string]struct{ tcp, verbs string }{
	"Go":      {"tcp", ""},
	"Go net":  {"tcp", "rsocket"},
	"Go HTTP": {"http", "http-rsocket"},
}

// program returns the first words of the command of a load.
func (q traffic) program(ctx context.Context, r *run, verbs bool, kind string) ([]string, error) {
	if names, ok := inGo[q.language]; ok {
		name := names.tcp
		if verbs {
			name = cmp.Or(names.verbs, kind)
		}
		return []string{r.self, "requests", name}, nil
	}
	if !verbs {
		path, err := r.compiled(ctx, "gcc", "requests_tcp")
		return []string{path}, err
	}
	path, err := r.compiled(ctx, "gcc", "requests_verbs", "-lrdmacm", "-libverbs")
	return []string{r.verbena, "run", "--device", kind, "--", path}, err
}

// partner is a process with which this one talks in lines.
type partner struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

func startPartner(ctx context.Context, argv []string) (*partner, error) {
	p := &partner{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	p.cmd.WaitDelay = stopGrace
	p.cmd.Env = os.Environ()
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewReader(out)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.cmd.Start()
}

func (p *partner) pid() int { return p.cmd.Process.Pid }

// hears reads a line of a word, a count and seconds.
func (p *partner) hears(word string) (count, seconds float64, err error) {
	line, err := p.stdout.ReadString('\n')
	if err == nil {
		_, err = fmt.Sscanf(line, word+" %g %g", &count, &seconds)
	}
	if err != nil {
		err = fmt.Errorf("the program does not say %q: %w: %s", word, err, line)
	}
	return count, seconds, err
}

// end closes the process's input and waits for it, or stops it after an error. It returns the first
// error and the process's output.
func (p *partner) end(err error) error {
	if err != nil {
		return p.stop(err)
	}
	p.stdin.Close()
	return p.said(p.cmd.Wait())
}

// stop ends a process that would go on.
func (p *partner) stop(err error) error {
	p.stdin.Close()
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	_ = p.cmd.Wait()                       // by the signal
	return p.said(err)
}

// said adds the process's words to an error.
func (p *partner) said(err error) error {
	if err != nil && p.stderr.Len() > 0 {
		err = fmt.Errorf("%w\n%s", err, tail(p.stderr.String()))
	}
	return err
}

// requestTopics are the servers that sleep.
var requestTopics = []topic{
	{"Servers in C, same host",
		slices.Concat(loads("C", sameHost, fullLoads), calls("C", sameHost, mostLoads))},
	{"Servers in Go, same host",
		slices.Concat(loads("Go", sameHost, mostLoads), calls("Go", sameHost, mostLoads))},
	{"Streams in Go, same host", slices.Concat(loads("Go net", sameHost, streamLoads),
		loads("Go HTTP", sameHost, httpLoads))},
	{"Streams in Go, RoCEv2 over veth", slices.Concat(loads("Go net", vethRoCE, streamLoads),
		loads("Go HTTP", vethRoCE, httpLoads))},
	{"Servers in C, RoCEv2 over veth",
		slices.Concat(loads("C", vethRoCE, mostLoads), calls("C", vethRoCE, mostLoads))},
	{"Servers in C, iWARP over veth",
		slices.Concat(loads("C", vethIWARP, mostLoads), calls("C", vethIWARP, mostLoads))},
	{"Servers in Go, RoCEv2 over veth",
		slices.Concat(loads("Go", vethRoCE, mostLoads), calls("Go", vethRoCE, mostLoads))},
	{"Servers in Go, iWARP over veth",
		slices.Concat(loads("Go", vethIWARP, mostLoads), calls("Go", vethIWARP, mostLoads))},
}

// load is the size of answers, the number of connections, and the outstanding requests
// of each.
type load struct{ value, clients, depth int }

var (
	fullLoads = slices.Concat(mostLoads, []load{{4 << 10, 1, 50}, {64 << 10, 1, 50}})
	mostLoads = []load{
		{64, 1, 1}, {64, 20, 1}, {64, 200, 1}, {64, 1, 50},
		{4 << 10, 1, 1}, {4 << 10, 20, 1}, {4 << 10, 200, 1},
		{64 << 10, 1, 1}, {64 << 10, 20, 1}, {64 << 10, 200, 1},
	}
	// with answers of 64 KiB and 1 MiB outstanding they are streams
	streamLoads = []load{{64, 1, 1}, {64, 1000, 1}, {64 << 10, 1, 8}, {1 << 20, 1, 4}}
	httpLoads   = []load{{64, 1, 1}, {64, 20, 1}, {64 << 10, 20, 1}}
)

func loads(language string, on way, of []load) (all []group) {
	for _, l := range of {
		all = append(all, traffic{language, l.value, l.clients, l.depth, on}.group())
	}
	return all
}

func calls(language string, on way, of []load) (all []group) {
	for _, l := range of {
		all = append(all, traffic{language, l.value, l.clients, l.depth, on}.calls())
	}
	return all
}
