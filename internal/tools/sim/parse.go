// SPDX-License-Identifier: BSD-2-Clause

package sim

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"verbena/ib"
	"verbena/internal/congestion"
	"verbena/internal/flows"
	"verbena/internal/monotime"
	"verbena/internal/simnet"
)

// scenario is a file that was read: a network, and groups of flows on it.
type scenario struct {
	world  *flows.World
	groups []*group
	run    monotime.Duration // 0 is until all flows have ended
	warm   monotime.Duration // goodput of flows without a size is measured from here
	runAt  string            // the place of the statement run
	seeded bool              // by an option: the file's seed is not obeyed

	names map[string]*simnet.Node
	hosts int
}

// group has the flows of one statement.
type group struct {
	text  string // "write h1..h64 h0"
	place string
	specs []flows.Spec
	depth int // of all flows
	flows []*flows.Flow
}

// statements are the first words of lines.
var statements = map[string]func(*scenario, *line){
	"seed": (*scenario).readSeed, "run": (*scenario).readRun, "host": (*scenario).readHost,
	"switch": (*scenario).readSwitch, "link": (*scenario).readLink,
	"fattree": (*scenario).readFatTree, "flow": (*scenario).readFlow, "at": (*scenario).readAt,
}

// read reads a file. The name is for messages.
func (o *options) read(name string, r io.Reader) (*scenario, error) {
	s := &scenario{world: flows.NewWorld(o.seed), seeded: o.seeded,
		names: map[string]*simnet.Node{}}
	lines := bufio.NewScanner(r)
	place := name + ":1"
	for n := 1; lines.Scan(); n++ {
		place = fmt.Sprintf("%s:%d", name, n)
		text, _, _ := strings.Cut(lines.Text(), "#")
		l := &line{place: place, words: strings.Fields(text)}
		if !l.more() {
			continue
		}
		word := l.next("")
		if statement := statements[word]; statement != nil {
			statement(s, l)
		} else {
			l.wrong(word, "a line begins with one of %s", known(statements))
		}
		if l.more() {
			l.wrong(l.words[0], "the line is complete before this word")
		}
		if l.err != nil {
			return nil, l.err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return s, o.checkAll(s, place)
}

// checkAll looks at what no line can be checked for by itself, and adds the flows. The place is
// that of the last line.
func (o *options) checkAll(s *scenario, last string) error {
	if o.isLive {
		return s.checkLive(last)
	}
	if len(s.groups) == 0 {
		return fmt.Errorf("%s: flow: say at least one, as in flow write a b size 1MB", last)
	}
	if s.warm >= s.run && s.run > 0 {
		return fmt.Errorf("%s: warm: it must be shorter than run", s.runAt)
	}
	for _, g := range s.groups {
		for _, spec := range g.specs {
			if !s.world.Net.Joined(spec.From, spec.To) || !s.world.Net.Joined(spec.To, spec.From) {
				return fmt.Errorf("%s: %s: no path joins its hosts: add links", g.place, g.text)
			}
			if spec.Bytes == 0 && s.run == 0 {
				return fmt.Errorf("%s: %s: give the flow a size, or add a line such as run 100ms",
					g.place, g.text)
			}
			g.flows = append(g.flows, s.world.Add(spec))
		}
	}
	return nil
}

// mostLive bounds the hosts of a live network: one thread carries all their frames.
const mostLive = 64

func (s *scenario) checkLive(last string) error {
	if s.hosts < 2 || s.hosts > mostLive {
		return fmt.Errorf("%s: host: a live network has from 2 to %d hosts, here are %d", last,
			mostLive, s.hosts)
	}
	return nil
}

// hostNames returns the names of the hosts in the order of their addresses.
func (s *scenario) hostNames() (names []string) {
	for name, node := range s.names {
		if node.Addr.IsValid() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return s.names[a].Addr.Compare(s.names[b].Addr)
	})
	return names
}

func known[V any](table map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(table)), ", ")
}

// readSeed reads: seed NUMBER.
func (s *scenario) readSeed(l *line) {
	n := uint64(l.count(0, 1<<62))
	if !s.seeded {
		s.world.Net.Rand = simnet.New(n).Rand
	}
}

// readRun reads: run TIME [warm TIME].
func (s *scenario) readRun(l *line) {
	s.run, s.runAt = l.longTime(), l.place
	for l.more() {
		if word := l.next(""); word != "warm" {
			l.wrong(word, "run has the option warm TIME")
		}
		s.warm = l.longTime()
	}
}

// readHost reads: host NAME...
func (s *scenario) readHost(l *line) {
	for ok := true; ok; ok = l.more() {
		for _, name := range s.newNames(l, "name a host, or some as in h1..h64") {
			s.addHost(name)
		}
	}
}

func (s *scenario) addHost(name string) *simnet.Node {
	s.hosts++
	i := s.hosts
	addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	node := s.world.Net.Host(name, addr)
	s.names[name] = node
	return node
}

// readSwitch reads: switch NAME...
func (s *scenario) readSwitch(l *line) {
	for ok := true; ok; ok = l.more() {
		for _, name := range s.newNames(l, "name a switch, or some as in s1..s4") {
			s.names[name] = s.world.Net.Switch(name)
		}
	}
}

func (s *scenario) newNames(l *line, advice string) []string {
	names := l.names(advice)
	for _, name := range names {
		s.checkNew(l, name)
	}
	if len(s.names)+len(names) > maxNames {
		l.wrong(l.last, "at most %d hosts and switches", maxNames)
	}
	if l.err != nil {
		return nil
	}
	return names
}

func (s *scenario) checkNew(l *line, name string) {
	if s.names[name] != nil {
		l.wrong(name, "the name is taken: choose another")
	}
}

// nodes reads names of hosts and switches.
func (s *scenario) nodes(l *line, advice string) (list []*simnet.Node) {
	for _, name := range l.names(advice) {
		node := s.names[name]
		if node == nil {
			l.wrong(name, "no host or switch has this name: add it in a line above")
			return nil
		}
		list = append(list, node)
	}
	return list
}

// readLink reads: link NAME NAME OPTION...
func (s *scenario) readLink(l *line) {
	const advice = "name two ends, as in link h1..h64 s rate 10Gb/s"
	as, bs := s.nodes(l, advice), s.nodes(l, advice)
	newLink := s.readLinkOptions(l)
	checkLinks(l, len(as)*len(bs)+len(s.world.Net.Links())/2)
	if l.err != nil {
		return
	}
	for _, a := range as {
		for _, b := range bs {
			if a == b {
				l.wrong(a.Name, "a link joins two different ends")
				return
			}
			s.world.Net.Connect(a, b, newLink(), newLink())
		}
	}
}

// mostLinks bounds the links of a network, both directions counting as one.
const mostLinks = 65_536

func checkLinks(l *line, n int) {
	if n > mostLinks {
		l.wrong(l.last, "at most %d links, here are %d", mostLinks, n)
	}
}

// readFatTree reads: fattree PORTS OPTION...
func (s *scenario) readFatTree(l *line) {
	k := int(l.count(2, 32))
	if k%2 != 0 {
		l.wrong(l.last, "switches of a fat tree have an even number of ports")
	}
	newLink := s.readLinkOptions(l)
	if l.err != nil {
		return
	}
	if len(s.names) > 0 {
		l.wrong("fattree", "it must come before other hosts and switches")
		return
	}
	var hosts []*simnet.Node
	for i := range k * k * k / 4 {
		hosts = append(hosts, s.addHost(fmt.Sprintf("h%d", i+1)))
	}
	for _, node := range s.world.Net.FatTree(k, hosts, newLink) {
		s.names[node.Name] = node
	}
}

// defaults of a link.
const (
	linkDelay  = monotime.Microsecond
	linkBuffer = 1_000_000
)

// change sets something of a link.
type change func(*simnet.Net, *simnet.Link)

// readLinkOptions reads the options of a link, and returns a function that makes such links.
func (s *scenario) readLinkOptions(l *line) func() *simnet.Link {
	var changes []change
	hasRate := false
	for l.more() {
		switch l.words[0] {
		case "rate":
			hasRate = true
		case "down", "up":
			l.wrong(l.words[0], "only a line such as at 10ms link a s down has this")
		}
		changes = append(changes, l.linkOption())
	}
	if !hasRate {
		l.wrong(l.last, "say the rate of the link, as in rate 10Gb/s")
	}
	return func() *simnet.Link {
		link := &simnet.Link{Delay: linkDelay, Buffer: linkBuffer}
		for _, c := range changes {
			c(s.world.Net, link)
		}
		return link
	}
}

// linkOptions read the words that follow their name.
var linkOptions = map[string]func(*line) change{
	"rate": func(l *line) change {
		rate := l.rate()
		return func(_ *simnet.Net, k *simnet.Link) { k.Set(rate, k.Delay) }
	},
	"delay": func(l *line) change {
		delay := l.time()
		return func(_ *simnet.Net, k *simnet.Link) { k.Set(k.Rate, delay) }
	},
	"jitter": func(l *line) change {
		jitter := l.time()
		return func(_ *simnet.Net, k *simnet.Link) { k.Jitter = jitter }
	},
	"buffer": func(l *line) change {
		size := int(l.size())
		return func(_ *simnet.Net, k *simnet.Link) { k.Buffer = size }
	},
	"mark": func(l *line) change {
		m := l.marking()
		return func(_ *simnet.Net, k *simnet.Link) { k.Mark = m }
	},
	"loss": func(l *line) change {
		loss := l.chance()
		return func(_ *simnet.Net, k *simnet.Link) { k.Loss = loss }
	},
	"bursts": func(l *line) change {
		b := simnet.Bursts{Begin: l.chance(), End: l.chance(), Loss: l.chance()}
		return func(_ *simnet.Net, k *simnet.Link) { k.Bursts = b }
	},
	"reorder": func(l *line) change {
		chance, late := l.chance(), l.time()
		return func(_ *simnet.Net, k *simnet.Link) { k.Reorder, k.Late = chance, late }
	},
	"down": func(*line) change { return func(n *simnet.Net, k *simnet.Link) { n.Down(k, true) } },
	"up":   func(*line) change { return func(n *simnet.Net, k *simnet.Link) { n.Down(k, false) } },
}

// linkOption reads an option of links.
func (l *line) linkOption() change {
	word := l.next("")
	option := linkOptions[word]
	if option == nil {
		l.wrong(word, "a link has the options %s", known(linkOptions))
		return nil
	}
	return option(l)
}

// marking reads the words that follow mark: SIZE, or SIZE..SIZE CHANCE, and then perhaps drop.
func (l *line) marking() (m simnet.Marking) {
	const advice = "say from how many bytes packets are marked, as in 100KB or 100KB..400KB 10%"
	from, to, slope := strings.Cut(l.next(advice), "..")
	low, ok := quantity(from, sizeUnits)
	m.From = int(low)
	if slope {
		high, isSize := quantity(to, sizeUnits)
		ok = ok && isSize && high > low
		m.To = int(high)
	}
	if !ok || low == 0 {
		l.wrong(l.last, "%s", advice)
		return m
	}
	if slope {
		m.Most = l.chance()
	}
	if l.more() && l.words[0] == "drop" {
		l.next("")
		m.Drop = true
	}
	return m
}

// readAt reads: at TIME link NAME NAME OPTION...
func (s *scenario) readAt(l *line) {
	const advice = "say the link that changes, as in at 10ms link a s rate 1Gb/s"
	at := l.time()
	if word := l.next(advice); word != "link" {
		l.wrong(word, "%s", advice)
	}
	as, bs := s.nodes(l, advice), s.nodes(l, advice)
	checkLinks(l, len(as)*len(bs))
	if l.err != nil {
		return
	}
	var links []*simnet.Link
	for _, a := range as {
		for _, b := range bs {
			links = append(append(links, a.LinksBetween(b)...), b.LinksBetween(a)...)
		}
	}
	if len(links) == 0 {
		l.wrong(l.last, "no link joins these two")
	}
	if !l.more() {
		l.wrong(l.last, "say what changes: %s", known(linkOptions))
	}
	for l.more() {
		c := l.linkOption()
		if l.err != nil {
			return
		}
		s.world.Net.At(monotime.Time(at), func() {
			for _, k := range links {
				c(s.world.Net, k)
			}
		})
	}
}

// Bounds of a scenario: flows, and the depths of all flows together.
const (
	maxFlows = 16_384
	maxDepth = 1_000_000
)

// readFlow reads: flow KIND NAME NAME OPTION...
func (s *scenario) readFlow(l *line) {
	const advice = "name both ends, as in flow write h1..h64 h0"
	g := &group{place: l.place, text: strings.Join(l.words[:min(3, len(l.words))], " ")}
	name := l.next("say its kind: " + known(kinds))
	kind, ok := kinds[name]
	if !ok {
		l.wrong(l.last, "a flow is one of %s", known(kinds))
	}
	from, to := s.ends(l, advice), s.ends(l, advice)
	o := flowOptions{spec: flows.Spec{Kind: kind, MTU: ib.MTU1024, Message: 64 << 10, Depth: 128,
		Reads: 128}}
	for l.more() {
		if kind >= flows.TRP && slices.Contains(wordsOfRC, l.words[0]) {
			l.wrong(l.words[0], "%s has no such option: only read, send and write have it", name)
		}
		o.read(l)
	}
	if l.err != nil {
		return
	}
	if o.pairs && len(from) != len(to) {
		l.wrong("pairs", "there are %d hosts on one side and %d on the other", len(from), len(to))
		return
	}
	o.spec.Fit()
	total, depth := 0, 0
	for _, other := range s.groups {
		total += len(other.specs)
		depth += other.depth
	}
	add := func(a, b *simnet.Node) {
		if a == b {
			return
		}
		if total++; total <= maxFlows {
			o.spec.From, o.spec.To = a.Addr, b.Addr
			g.specs = append(g.specs, o.spec)
			o.spec.Start = o.spec.Start.Add(o.every)
		}
	}
	for i, a := range from {
		if o.pairs {
			add(a, to[i])
			continue
		}
		for _, b := range to {
			add(a, b)
		}
	}
	if kind < flows.TRP {
		g.depth = len(g.specs) * o.spec.Depth
	}
	switch {
	case total > maxFlows:
		l.wrong(g.text, "at most %d flows, here are %d", maxFlows, total)
	case len(g.specs) == 0:
		l.wrong(l.last, "a flow joins two different hosts")
	case depth+g.depth > maxDepth:
		l.wrong(g.text, "the depths of all flows are at most %d, here %d: choose a lower depth",
			maxDepth, depth+g.depth)
	}
	s.groups = append(s.groups, g)
}

// ends reads names of hosts.
func (s *scenario) ends(l *line, advice string) []*simnet.Node {
	list := s.nodes(l, advice)
	for _, node := range list {
		if !node.Addr.IsValid() {
			l.wrong(node.Name, "a flow joins hosts, and this is a switch")
		}
	}
	return list
}

var kinds = map[string]flows.Kind{
	"write": flows.Write, "read": flows.Read, "send": flows.Send, "trp": flows.TRP,
	"cubic": flows.Cubic, "bbr": flows.BBR,
}

type flowOptions struct {
	spec  flows.Spec
	pairs bool
	every monotime.Duration
}

var flowWords = map[string]func(*flowOptions, *line){
	"size":      func(o *flowOptions, l *line) { o.spec.Bytes = l.size() },
	"message":   func(o *flowOptions, l *line) { o.spec.Message = int(l.messageSize()) },
	"depth":     func(o *flowOptions, l *line) { o.spec.Depth = int(l.count(1, 16_384)) },
	"reads":     func(o *flowOptions, l *line) { o.spec.Reads = int(l.count(1, 128)) },
	"mtu":       func(o *flowOptions, l *line) { o.spec.MTU = l.mtu() },
	"start":     func(o *flowOptions, l *line) { o.spec.Start = monotime.Time(l.time()) },
	"every":     func(o *flowOptions, l *line) { o.every = l.time() },
	"pairs":     func(o *flowOptions, l *line) { o.pairs = true },
	"dcqcn":     func(o *flowOptions, l *line) { o.spec.Congestion = congestion.DCQCN },
	"go-back-n": func(o *flowOptions, l *line) { o.spec.GoBackN = true },
}

// wordsOfRC are options that other kinds of flow do not have.
var wordsOfRC = []string{"dcqcn", "depth", "go-back-n", "message", "reads"}

func (o *flowOptions) read(l *line) {
	word := l.next("")
	option := flowWords[word]
	if option == nil {
		l.wrong(word, "a flow has the options %s", known(flowWords))
		return
	}
	option(o, l)
}

// maxMessage bounds messages; all flows share the memory for one.
const maxMessage = 1 << 30

func (l *line) messageSize() int64 {
	n := l.size()
	if n > maxMessage {
		l.wrong(l.last, "a message has at most 1GiB here")
	}
	return n
}

func (l *line) mtu() ib.MTU {
	n := int(l.count(256, 4096))
	for m := ib.MTU256; m <= ib.MTU4096; m++ {
		if m.Bytes() == n {
			return m
		}
	}
	l.wrong(l.last, "a path MTU is 256, 512, 1024, 2048 or 4096")
	return 0
}
