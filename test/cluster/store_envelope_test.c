// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_envelope.h"

#include "base/base.h"
#include "test.h"

static const uint8_t secret[link_secret_size] = "a secret of thirty-two bytes...";
static uint8_t bytes[store_envelope_size_max];
static uint8_t space[store_envelope_size_max];
static struct seal *seal;

static void use_key(const char *cluster, uint64_t from)
{
    seal_destroy(&seal);
    ASSERT(store_envelope_key(secret, cluster, from, &seal) == STATUS_OK);
}

static struct slice written(uint64_t to, enum store_kind kind, uint64_t counter, const char *body)
{
    struct store_envelope envelope = {.from = 5, .to = to, .kind = kind, .counter = counter};
    envelope.body = slice_str(body);
    size_t size = store_envelope_write(&envelope, seal, bytes);
    ASSERT(size > 0);
    return slice_of(bytes, size);
}

static bool is_read(struct slice value, uint64_t from, uint64_t to)
{
    struct store_envelope envelope = {.from = from, .to = to};
    return store_envelope_read(value, seal, space, &envelope);
}

TEST(a_plain_value_comes_back)
{
    struct store_envelope envelope = {.from = 5};
    seal_destroy(&seal);
    struct slice value = written(0, STORE_FRAME, 0x0102030405060708, "body");
    CHECK_EQ(value.size, store_envelope_head_size + 4);
    CHECK(memcmp(value.bytes, "\1\2\1\2\3\4\5\6\7\10body", 14) == 0);
    CHECK(store_envelope_read(value, NULL, space, &envelope));
    CHECK_EQ(envelope.kind, STORE_FRAME);
    CHECK_EQ(envelope.counter, 0x0102030405060708);
    CHECK(slice_is(envelope.body, "body"));
    CHECK(is_read(written(0, STORE_LEAVE, 1, ""), 5, 0));
}

TEST(a_sealed_value_comes_back_to_its_addressee_only)
{
    struct store_envelope envelope = {.from = 5, .to = 9};
    use_key("main", 5);
    struct slice value = written(9, STORE_HELLO, 77, "body");
    CHECK_EQ(value.size, store_envelope_extra_size + 4);
    CHECK(memmem(value.bytes, value.size, "body", 4) == NULL);
    CHECK(store_envelope_read(value, seal, space, &envelope));
    CHECK_EQ(envelope.kind, STORE_HELLO);
    CHECK_EQ(envelope.counter, 77);
    CHECK(slice_is(envelope.body, "body"));
    CHECK(!is_read(value, 5, 0));
    CHECK(!is_read(value, 5, 8));
    CHECK(!is_read(value, 6, 9));
    use_key("main", 6);
    CHECK(!is_read(value, 6, 9));
    use_key("other", 5);
    CHECK(!is_read(value, 5, 9));
    use_key("main", 5);
    for (size_t i = 0; i < value.size; i++) {
        bytes[i] ^= 1;
        CHECK(!is_read(value, 5, 9));
        bytes[i] ^= 1;
    }
    CHECK(is_read(value, 5, 9));
    seal_destroy(&seal);
}

TEST(a_plain_value_does_not_pass_for_a_sealed_one_nor_the_reverse)
{
    struct seal *none = NULL;
    struct store_envelope envelope = {.from = 5};
    use_key("main", 5);
    struct slice value = written(0, STORE_FRAME, 1, "body");
    CHECK(!store_envelope_read(value, none, space, &envelope));
    struct seal *kept = seal;
    seal = NULL;
    value = written(0, STORE_FRAME, 1, "a body that is longer than a tag");
    CHECK(is_read(value, 5, 0));
    seal = kept;
    CHECK(!is_read(value, 5, 0));
    seal_destroy(&seal);
}

TEST(malformed_values_are_refused)
{
    seal_destroy(&seal);
    struct slice value = written(0, STORE_FRAME, 1, "");
    for (size_t size = 0; size < value.size; size++) {
        CHECK(!is_read(slice_of(value.bytes, size), 5, 0));
    }
    CHECK(is_read(value, 5, 0));
    bytes[1] = 0;
    CHECK(!is_read(value, 5, 0));
    bytes[1] = STORE_PROBE + 1;
    CHECK(!is_read(value, 5, 0));
    bytes[1] = STORE_PROBE;
    bytes[9] = 0; // counter 0
    CHECK(!is_read(value, 5, 0));
    bytes[9] = 1;
    CHECK(is_read(slice_of(bytes, store_envelope_head_size + link_frame_size_max), 5, 0));
    CHECK(!is_read(slice_of(bytes, store_envelope_head_size + link_frame_size_max + 1), 5, 0));
}

TEST(the_largest_hello_comes_back)
{
    uint8_t big[link_hello_size_max];
    struct store_hello hello = {.seen_count = link_peer_count_max};
    struct store_hello read;
    memset(big, 0xab, sizeof(big));
    memset(hello.name, 'n', link_name_size - 1);
    hello.hello = slice_of(big, sizeof(big));
    for (uint32_t i = 0; i < link_peer_count_max; i++) {
        hello.seen[i] = UINT64_MAX - i;
    }
    size_t size = store_hello_write(&hello, bytes);
    CHECK(size <= store_hello_size_max);
    CHECK(store_hello_read(slice_of(bytes, size), &read));
    CHECK_STR(read.name, hello.name);
    CHECK(slice_equal(read.hello, hello.hello));
    CHECK(store_hello_lists(&read, UINT64_MAX - 30) && !store_hello_lists(&read, 1));
    for (size_t part = 0; part < size; part++) {
        CHECK(!store_hello_read(slice_of(bytes, part), &read));
    }
    bytes[size] = 0;
    CHECK(!store_hello_read(slice_of(bytes, size + 1), &read));
}

TEST(an_empty_hello_is_good_and_a_name_is_made_printable)
{
    struct store_hello hello = {.name = "a\nb\x80"};
    struct store_hello read;
    size_t size = store_hello_write(&hello, bytes);
    CHECK(store_hello_read(slice_of(bytes, size), &read));
    CHECK_STR(read.name, "a?b?");
    CHECK_EQ(read.hello.size, 0);
    CHECK_EQ(read.seen_count, 0);
    CHECK(store_hello_read(slice_str("\0\0\0\0") /* empty */, &read) == false);
    CHECK(store_hello_read(slice_of("\0\0\0\0", 4), &read));
    CHECK(!store_hello_read(slice_of("\x40\0\0\0", 4), &read));
    CHECK(!store_hello_read(slice_of("\0\x01\x01\0", 4), &read));
}
