// SPDX-License-Identifier: BSD-2-Clause

package main

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/fnv"
)

// The table is an array of slots. A key is in one of the probes slots from its home on, so one READ
// finds it. probes more slots follow the last home.
//
//	0       4      5        6                128
//	| CRC32 | len  | len    | key   value    |
//	|       | key  | value  |                |
const (
	slotSize = 128
	homes    = 4096
	probes   = 8
)

var (
	errTorn     = errors.New("the slot is being written")
	errNotFound = errors.New("no such key")
	errFull     = errors.New("no room for the key")
)

func newTable() []byte {
	t := make([]byte, (homes+probes)*slotSize)
	for i := 0; i < len(t); i += slotSize {
		seal(t[i : i+slotSize])
	}
	return t
}

func home(key string) int {
	h := fnv.New32a()
	h.Write([]byte(key))
	return int(h.Sum32() % homes)
}

func makeSlot(key, value string) ([]byte, error) {
	if key == "" || 6+len(key)+len(value) > slotSize {
		return nil, errors.New("key and value must have 1 to 122 bytes together")
	}
	slot := append(make([]byte, 4, slotSize), byte(len(key)), byte(len(value)))
	slot = append(append(slot, key...), value...)[:slotSize]
	seal(slot)
	return slot, nil
}

// seal sets the checksum, which tells a reader that it has the whole slot.
func seal(slot []byte) { binary.BigEndian.PutUint32(slot, crc32.ChecksumIEEE(slot[4:])) }

// open returns the contents of a slot, an empty key if it is free.
func open(slot []byte) (key, value string, err error) {
	k, v := int(slot[4]), int(slot[5])
	if binary.BigEndian.Uint32(slot) != crc32.ChecksumIEEE(slot[4:]) || 6+k+v > slotSize {
		return "", "", errTorn
	}
	return string(slot[6 : 6+k]), string(slot[6+k : 6+k+v]), nil
}

// find looks for a key in the slots from its home on.
func find(slots []byte, key string) (string, error) {
	for i := range probes {
		switch k, v, err := open(slots[i*slotSize : (i+1)*slotSize]); {
		case err != nil:
			return "", err
		case k == key:
			return v, nil
		}
	}
	return "", errNotFound
}

// store puts a slot that a client sent into the table. The checksum is written last, and is
// wrong until then.
func store(table, slot []byte) error {
	key, _, err := open(slot)
	if err != nil || key == "" {
		return errors.New("not a slot")
	}
	slots, free := table[home(key)*slotSize:], -1
	for i := probes - 1; i >= 0; i-- {
		k, _, err := open(slots[i*slotSize : (i+1)*slotSize])
		if err != nil {
			return err
		}
		if k == key {
			free = i
			break
		}
		if k == "" {
			free = i
		}
	}
	if free < 0 {
		return errFull
	}
	to := slots[free*slotSize : (free+1)*slotSize]
	copy(to[4:], slot[4:])
	copy(to, slot[:4])
	return nil
}
