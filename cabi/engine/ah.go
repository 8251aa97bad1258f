// SPDX-License-Identifier: BSD-2-Clause

//go:build cabi

package main

// #include "engine.h"
import "C"

//export vb_ah_create
func vb_ah_create(pd C.vb_handle, attr *C.struct_ibv_ah_attr, ah *C.vb_handle) C.int {
	p := pds.get(handle(pd))
	if p == nil {
		return C.int(errnoOf("ibv_create_ah", noObject("PD")))
	}
	a := ahAttr(attr)
	v, err := p.verbs.CreateAH(&a)
	if err == nil {
		var h handle
		if h, err = ahs.put(&ahObject{v}); err == nil {
			*ah = C.vb_handle(h)
			return 0
		}
		v.Destroy()
	}
	return C.int(errnoOf("ibv_create_ah", err))
}

//export vb_ah_destroy
func vb_ah_destroy(ah C.vb_handle) C.int {
	o := ahs.get(handle(ah))
	if o == nil {
		return C.int(errnoOf("ibv_destroy_ah", noObject("AH")))
	}
	err := o.verbs.Destroy()
	if err == nil {
		ahs.remove(handle(ah))
	}
	return C.int(errnoOf("ibv_destroy_ah", err))
}
