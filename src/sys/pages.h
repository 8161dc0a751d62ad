// SPDX-License-Identifier: Apache-2.0
//
// pages.h -- address space by the page: reserved in plenty, used as needed, given back when idle.
#pragma once

#include <stddef.h>

// Zeroed pages that cost nothing until touched.  NULL when there is no address space.
void *pages_reserve(size_t size);

// The same in large pages where the kernel has them, aligned to those: for memory that is read all over,
// where small ones would cost a second cache miss for each.  A large page is resident as a whole.
void *pages_reserve_huge(size_t size);

// Clears the caller's pointer, which may be NULL.
void pages_release(void *bytes_ptr, size_t size);

// The content is gone, the address stays.  Whole pages only; a part of a page is left alone.
void pages_discard(void *bytes, size_t size);
