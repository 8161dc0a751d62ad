// SPDX-License-Identifier: Apache-2.0
//
// pages.h -- address space by the page: reserved in plenty, used as needed, given back when idle.
#pragma once

#include <stddef.h>

// Zeroed pages that cost nothing until touched.  NULL when address space is short.
void *pages_reserve(size_t size);

// The same in huge pages, if the kernel has them, and aligned to them: for memory with random
// reads, where small pages would cost a TLB miss each.  A huge page is resident as a whole.
void *pages_reserve_huge(size_t size);

// Clears the caller's pointer, which may be NULL.
void pages_release(void *bytes_ptr, size_t size);

// Drops the content and keeps the addresses.  Whole pages only; parts of pages are left alone.
void pages_discard(void *bytes, size_t size);
