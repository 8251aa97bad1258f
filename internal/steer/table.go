// SPDX-License-Identifier: BSD-2-Clause

package steer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"verbena/ib"
	"verbena/internal/wire/ether"
)

// MaxRules bounds the flows of an interface: a frame is compared with each until one matches.
const MaxRules = 4096

// Errors of NewRule and Table.With. They come wrapped with the reason.
var (
	ErrInvalid     = errors.New("steer: invalid flow")
	ErrUnsupported = errors.New("steer: unsupported flow")
	ErrFull        = errors.New("steer: too many flows")
)

// Rule is a flow and the receiver of its frames. It is immutable.
type Rule[T any] struct {
	To       T
	kind     ib.FlowType
	priority uint16
	passes   bool        // lower ones may match, too
	action   ib.FlowSpec // FlowActionTag, FlowActionDrop or nil
	match    matcher
}

// NewRule returns the rule of a flow.
//
// Errors: ErrInvalid; ErrUnsupported.
func NewRule[T any](a *ib.FlowAttr, to T) (*Rule[T], error) {
	r := &Rule[T]{To: to, kind: a.Type, priority: a.Priority, passes: a.Flags&ib.FlowDontTrap != 0}
	switch {
	case a.Type > ib.FlowSniffer:
		return nil, fmt.Errorf("%w: type %d", ErrInvalid, a.Type)
	case a.Flags&^ib.FlowDontTrap != 0:
		return nil, fmt.Errorf("%w: flags %#x", ErrUnsupported, uint32(a.Flags))
	case a.Type != ib.FlowNormal && r.passes:
		return nil, fmt.Errorf("%w: FlowDontTrap is for normal flows", ErrInvalid)
	case a.Type != ib.FlowNormal && len(a.Specs) > 0:
		return nil, fmt.Errorf("%w: specs are for normal flows", ErrInvalid)
	}
	headers, err := r.takeAction(a.Specs)
	if err == nil {
		r.match, err = newMatcher(headers)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r, nil
}

// takeAction returns the specs of headers.
func (r *Rule[T]) takeAction(specs []ib.FlowSpec) (headers []ib.FlowSpec, err error) {
	for i, s := range specs {
		switch s.(type) {
		case ib.FlowActionDrop, ib.FlowActionTag:
			if r.action != nil {
				return nil, fmt.Errorf("spec %d is the second action", i)
			}
			r.action = s
		default:
			headers = append(headers, s)
		}
	}
	if r.Drops() && r.passes {
		return nil, errors.New("FlowDontTrap is not for flows that drop")
	}
	return headers, nil
}

// Drops reports whether the rule's frames go nowhere.
func (r *Rule[T]) Drops() bool { return r.action == ib.FlowActionDrop{} }

// Tag returns the tag of the rule's frames, 0 if they have none.
func (r *Rule[T]) Tag() uint32 {
	tag, _ := r.action.(ib.FlowActionTag)
	return tag.Tag
}

// Destination returns the one address that the rule's frames go to. anyGroup is set if they go to
// all groups, all if they go to any address; none is set if frames of the interface's own addresses
// are enough.
func (r *Rule[T]) Destination() (mac [6]byte, one, anyGroup, all bool) {
	switch r.kind {
	case ib.FlowAllDefault, ib.FlowSniffer:
		return mac, false, false, true
	case ib.FlowMCDefault:
		return mac, false, true, false
	}
	const whole = "\xff\xff\xff\xff\xff\xff"
	if r.match.ethMask != nil && string(r.match.ethMask[:6]) == whole {
		return [6]byte(r.match.eth[:6]), true, false, false
	}
	return mac, false, false, false
}

// Table has the rules of an interface in the order in which they are tried. nil has none.
type Table[T any] struct {
	rules []*Rule[T] // by rank, then by age
}

// rank is the order of the types, and of priorities.
func (r *Rule[T]) rank() int {
	switch r.kind {
	case ib.FlowSniffer:
		return -1
	case ib.FlowMCDefault:
		return 1 << 16
	case ib.FlowAllDefault:
		return 1<<16 + 1
	}
	return int(r.priority)
}

// Len returns the number of rules.
func (t *Table[T]) Len() int {
	if t == nil {
		return 0
	}
	return len(t.rules)
}

// With returns a table with a rule more.
//
// Errors: ErrFull.
func (t *Table[T]) With(r *Rule[T]) (*Table[T], error) {
	if t == nil {
		t = &Table[T]{}
	}
	if len(t.rules) >= MaxRules {
		return nil, fmt.Errorf("%w: %d", ErrFull, len(t.rules))
	}
	at := len(t.rules)
	for at > 0 && t.rules[at-1].rank() > r.rank() {
		at--
	}
	return &Table[T]{slices.Insert(slices.Clone(t.rules), at, r)}, nil
}

// Without returns a table without the rules for which gone is true.
func (t *Table[T]) Without(gone func(*Rule[T]) bool) *Table[T] {
	if t == nil {
		return nil
	}
	return &Table[T]{slices.DeleteFunc(slices.Clone(t.rules), gone)}
}

// rocePort is that of RoCEv2, whose packets are no default flow's: queue pairs take them.
const rocePort = 4791

// Match appends the rules that a frame is for to dst.
func (t *Table[T]) Match(dst []*Rule[T], h *ether.Headers) []*Rule[T] {
	if t == nil {
		return dst
	}
	p := h.Ports()
	roce := p != nil && h.Proto == ether.ProtoUDP && binary.BigEndian.Uint16(p[2:]) == rocePort
	var taker *Rule[T]
	for _, r := range t.rules {
		if taker != nil && r.rank() != taker.rank() {
			break
		}
		switch r.kind {
		case ib.FlowSniffer:
			dst = append(dst, r)
			continue
		case ib.FlowMCDefault:
			if roce || h.Dst()[0]&1 == 0 {
				continue
			}
		case ib.FlowAllDefault:
			if roce {
				continue
			}
		default:
			if taker != nil && !r.match.same(&taker.match) || !r.match.matches(h) {
				continue
			}
		}
		dst = append(dst, r)
		if !r.passes && taker == nil {
			taker = r
		}
	}
	return dst
}
