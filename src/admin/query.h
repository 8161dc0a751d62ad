// SPDX-License-Identifier: Apache-2.0
//
// query.h -- what stands behind the `?` of a request's target: name=value&name=value.
#pragma once

#include "base/slice.h"

// The value of the first parameter of that name, percent-encoded; false: not there.  A name without
// `=` has an empty value.
bool query_find(struct slice target, const char *name, struct slice *out);

// The same as a number; `absent` without such a name.  False: the value is not a number.
bool query_number(struct slice target, const char *name, uint64_t absent, uint64_t *out);

// With %XX decoded once, into `space`; false: it does not fit, or a percent sign is not one of
// those.
bool query_decode(struct slice spelt, void *space, size_t capacity, struct slice *out);
