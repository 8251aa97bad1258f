// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

func (o *pdObject) ahCreate(attr *C.struct_ibv_ah_attr, ah *C.vb_handle) error {
	a := ahAttr(attr)
	v, err := o.verbs.CreateAH(&a)
	if err != nil {
		return err
	}
	return ahs.give(ah, &ahObject{v}, v.Destroy)
}

func (o *ahObject) destroy() error { return o.verbs.Destroy() }
