// SPDX-License-Identifier: BSD-2-Clause

package ib

import "strings"

// Access is a set of rights to registered memory, or, in QPAttr, the kinds of
// request a responder accepts. Values are those of ibv_access_flags.
type Access uint32

// Access rights.
const (
	AccessLocalWrite      Access = 1 << 0
	AccessRemoteWrite     Access = 1 << 1
	AccessRemoteRead      Access = 1 << 2
	AccessRemoteAtomic    Access = 1 << 3
	AccessMWBind          Access = 1 << 4
	AccessZeroBased       Access = 1 << 5
	AccessOnDemand        Access = 1 << 6 // the memory need not be mapped before it is used
	AccessHugeTLB         Access = 1 << 7
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9
	AccessRelaxedOrdering Access = 1 << 20 // READs into it may overtake each other
	accessOptionalMask    Access = 0x3ff << 20
	AccessRemote                 = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic |
		AccessFlushGlobal | AccessFlushPersistent
	accessKnown = 1<<10 - 1 | accessOptionalMask
)

// Has reports whether all rights in need are in a.
func (a Access) Has(need Access) bool { return a&need == need }

// Valid reports whether a is a legal set for a memory region. It has no unknown bit, and local
// write if it has remote write or remote atomic.
//
// Spec: ibv_reg_mr(3); IBTA vol. 1, 10.6.3.
func (a Access) Valid() bool {
	if a&^accessKnown != 0 {
		return false
	}
	return a&(AccessRemoteWrite|AccessRemoteAtomic) == 0 || a.Has(AccessLocalWrite)
}

func (a Access) String() string {
	names := []string{"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND",
		"ZERO_BASED", "ON_DEMAND", "HUGETLB", "FLUSH_GLOBAL", "FLUSH_PERSISTENT"}
	var s []string
	for i, n := range names {
		if a&(1<<i) != 0 {
			s = append(s, n)
		}
	}
	if a&AccessRelaxedOrdering != 0 {
		s = append(s, "RELAXED_ORDERING")
	}
	if len(s) == 0 {
		return "LOCAL_READ"
	}
	return strings.Join(s, "|")
}

// MRAdvice is advice about memory that will be used soon: ibv_advise_mr_advice.
type MRAdvice uint8

// Advice about a range of an on-demand paging region.
const (
	AdvicePrefetch        MRAdvice = iota // page it in for reading
	AdvicePrefetchWrite                   // and for writing
	AdvicePrefetchNoFault                 // what is in memory already
)

// MWType is the type of a memory window.
type MWType uint8

// Memory window types. A type 1 window is bound by BindMW, a type 2 window by
// a BIND_MW work request, which also chooses the key's low byte.
const (
	MWType1 MWType = iota + 1
	MWType2
)

func (t MWType) String() string {
	switch t {
	case MWType1:
		return "type 1"
	case MWType2:
		return "type 2"
	}
	return "invalid"
}

// ReregFlags select the properties that MR.Rereg changes: ibv_rereg_mr_flags.
type ReregFlags uint8

// Properties that a re-registration changes.
const (
	ReregTranslation ReregFlags = 1 << iota
	ReregPD
	ReregAccess
)
