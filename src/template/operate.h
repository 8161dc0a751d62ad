// SPDX-License-Identifier: Apache-2.0
//
// operate.h -- Python's operators on values.
//
// False, with the failure noted, where Python would raise, and where a whole number would not fit in 64 bits.
#pragma once

#include "template/ast_internal.h"

bool operate_add(struct value_room *room, const struct value *left, const struct value *right,
                 struct value *out);

// - * / // % **
bool operate(struct value_room *room, enum operation operation, const struct value *left,
             const struct value *right, struct value *out);

// +x and -x.
bool operate_sign(struct value_room *room, const struct value *value, bool is_minus,
                  struct value *out);

// == != < <= > >= in, not in
bool operate_compare(struct value_room *room, enum operation operation, const struct value *left,
                     const struct value *right, bool *out);

// x[from:to:step], where a missing bound is NULL.
bool operate_slice(struct value_room *room, const struct value *subject,
                   const struct value *const bounds[3], struct value *out);
