// SPDX-License-Identifier: Apache-2.0
//
// For any message: the text is printable and ends; only a move names a host.

#include "base/base.h"
#include "cluster/store_error.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct store_error error;

    store_error_read(slice_of(bytes, size), &error);
    ASSERT(memchr(error.text, '\0', sizeof(error.text)) != NULL);
    for (const char *at = error.text; *at != '\0'; at++) {
        ASSERT(*at >= ' ' && *at < 0x7f);
    }
    ASSERT(memchr(error.host.name, '\0', sizeof(error.host.name)) != NULL);
    ASSERT((error.remedy == STORE_MOVE) == (error.host.port != 0));
    return 0;
}
