// SPDX-License-Identifier: Apache-2.0
//
// For any bytes: a plain value that is read is written back as the same bytes, and so is its hello,
// but for a name that had to be made printable; no value opens under a key.

#include "base/base.h"
#include "cluster/store_envelope.h"
#include "fuzz.h"

static uint8_t space[store_envelope_size_max];
static uint8_t again[store_envelope_size_max];

static void check_hello(struct slice body)
{
    uint8_t written[store_hello_size_max];
    struct store_hello hello;
    struct store_hello second;

    if (!store_hello_read(body, &hello)) {
        return;
    }
    size_t size = store_hello_write(&hello, written);
    ASSERT(store_hello_read(slice_of(written, size), &second));
    ASSERT(strcmp(hello.name, second.name) == 0 && slice_equal(hello.hello, second.hello));
    ASSERT(hello.seen_count == second.seen_count);
    // A NUL of the name became a question mark, so nothing is shorter.
    ASSERT(size == body.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const uint8_t secret[link_secret_size] = "fuzz";
    static struct seal *seal;
    struct store_envelope envelope = {.from = 1, .to = 2};

    if (seal == NULL) {
        ASSERT(store_envelope_key(secret, "fuzz", 1, &seal) == STATUS_OK);
    }
    ASSERT(!store_envelope_read(slice_of(bytes, size), seal, space, &envelope));
    if (store_envelope_read(slice_of(bytes, size), NULL, space, &envelope)) {
        ASSERT(envelope.from == 1 && envelope.to == 2 && envelope.counter != 0);
        ASSERT(store_envelope_write(&envelope, NULL, again) == size);
        ASSERT(memcmp(again, bytes, size) == 0);
        check_hello(envelope.body);
    }
    return 0;
}
