// SPDX-License-Identifier: Apache-2.0
//
// member_table.h -- a small number for each backend that is told of, so that others can keep arrays.
//
// A number stays with its backend until that leaves; then somebody else gets it, and whoever keeps something
// under it has to clear that first.
//
// Threads: one at a time.  Memory: taken by _create.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct member_table;

enum { member_none = UINT32_MAX };

// NULL when memory is short.
struct member_table *member_table_create(uint32_t member_max);
void member_table_destroy(struct member_table **table);

// The number of that backend; member_none: it is not here.
uint32_t member_table_find(const struct member_table *table, uint64_t id);

// Likewise, and lets it in; member_none: all numbers are taken.  `id` is not 0.
uint32_t member_table_enter(struct member_table *table, uint64_t id);

// All numbers that have somebody and are not marked are free again; told one by one.
typedef void member_left_fn(void *owner, uint32_t number);
void member_table_keep(struct member_table *table, const bool *is_kept, member_left_fn *left,
                       void *owner);

// Who has the number; 0: nobody.
uint64_t member_table_id(const struct member_table *table, uint32_t number);
