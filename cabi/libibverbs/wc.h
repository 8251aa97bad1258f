/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts work completions of the engine to those of the application. The engine uses the numbers
 * of enum ibv_wc_status, ibv_wc_opcode and ibv_wc_flags.
 */
#ifndef VERBENA_WC_H
#define VERBENA_WC_H

#include "front.h"

#include <endian.h>

/* Returns the immediate data in network byte order, or the key that was invalidated. */
static inline uint32_t vb_wc_imm(const struct vb_wc *from)
{
	return from->flags & IBV_WC_WITH_INV ? from->invalidated_rkey : htobe32(from->imm_data);
}

/* Reads the tag, which is in the place of fields of datagrams; zero where no tag matched. */
static inline void vb_wc_tag(const struct vb_wc *from, struct ibv_wc_tm_info *to)
{
	*to = (struct ibv_wc_tm_info){0};
	if (from->opcode != IBV_WC_TM_RECV || !(from->flags & IBV_WC_TM_MATCH))
		return;
	to->tag = (uint64_t)from->tag_high << 32 | from->src_qp;
	to->priv = (uint32_t)from->pkey_index << 16 | from->slid;
}

static inline void vb_wc_copy(struct ibv_wc *to, const struct vb_wc *from)
{
	to->wr_id = from->wr_id;
	to->status = (enum ibv_wc_status)from->status;
	to->opcode = (enum ibv_wc_opcode)from->opcode;
	to->vendor_err = from->vendor_err;
	to->byte_len = from->byte_len;
	to->imm_data = vb_wc_imm(from);
	to->qp_num = from->qp_num;
	to->src_qp = from->src_qp;
	to->wc_flags = from->flags;
	to->pkey_index = from->pkey_index;
	to->slid = from->slid;
	to->sl = from->sl;
	to->dlid_path_bits = 0;
}

#endif
