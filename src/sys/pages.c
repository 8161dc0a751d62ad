// SPDX-License-Identifier: Apache-2.0

#include "sys/pages.h"

#include "base/base.h"

#include <string.h>
#include <sys/mman.h>

enum { page_size = 4096, huge_page_size = 2 << 20 };

void *pages_reserve(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

void *pages_reserve_huge(size_t size)
{
    size_t whole = (size + page_size - 1) / page_size * page_size;
    uint8_t *bytes = pages_reserve(whole + huge_page_size);
    if (bytes == NULL) {
        return NULL;
    }
    size_t skip = -(uintptr_t)bytes % huge_page_size;
    if (skip > 0) {
        ASSERT(munmap(bytes, skip) == 0);
    }
    bytes += skip;
    ASSERT(munmap(bytes + whole, huge_page_size - skip) == 0);
    // A kernel without large pages says no, and small ones do.
    (void)madvise(bytes, whole, MADV_HUGEPAGE);
    return bytes;
}

void pages_release(void *bytes_ptr, size_t size)
{
    void *bytes;
    memcpy(&bytes, bytes_ptr, sizeof(bytes));
    memset(bytes_ptr, 0, sizeof(bytes));
    if (bytes != NULL) {
        ASSERT(munmap(bytes, size) == 0);
    }
}

void pages_discard(void *bytes, size_t size)
{
    size_t skip = -(uintptr_t)bytes % page_size;
    if (size < skip + page_size) {
        return;
    }
    size_t whole = (size - skip) / page_size * page_size;
    ASSERT(madvise((uint8_t *)bytes + skip, whole, MADV_DONTNEED) == 0);
}
