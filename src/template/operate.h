// SPDX-License-Identifier: Apache-2.0
//
// operate.h -- Python's operators on values.
//
// They fail where Python raises, and where a whole number would not fit in 64 bits.
#pragma once

#include "template/ast_internal.h"

// + - * / // % **
struct value operate(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right);

// +x and -x.
struct value operate_sign(struct value_room *room, const struct value *value, bool is_minus);

// == != < <= > >= in, not in
bool operate_compare(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right);

// x[from:to:step], where a missing bound is none.
struct value operate_slice(struct value_room *room, const struct value *subject,
                           const struct value *const bounds[3]);
