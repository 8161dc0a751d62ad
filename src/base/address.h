// SPDX-License-Identifier: Apache-2.0
//
// address.h -- a socket address, as the bytes that the kernel takes.
//
// The deterministic core carries addresses without looking inside; net/tcp.h parses and formats
// them.  Size 0: no address.
#pragma once

#include "base/slice.h"

struct address {
    _Alignas(8) uint8_t bytes[28]; // a sockaddr_in or a sockaddr_in6
    uint32_t size;
};

static inline bool address_equal(const struct address *a, const struct address *b)
{
    return slice_equal(slice_of(a->bytes, a->size), slice_of(b->bytes, b->size));
}
