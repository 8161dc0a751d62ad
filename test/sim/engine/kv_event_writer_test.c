// SPDX-License-Identifier: Apache-2.0
//
// The expected bytes were made by the encoders of the engines themselves.

#include "sim/engine/kv_event_writer.h"

#include "base/text.h"
#include "test.h"

#define HASH_1 0x2ceabcfae6d332ea
#define HASH_2 0xa4c717290894d44f
#define HASH_3 0x1122334455667788

static const uint32_t counted[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

// Those of one block of 4 tokens on the GPU, as vLLM says it of a model with one kind of attention.
static struct kv_event stored(const uint64_t *hash)
{
    return (struct kv_event){
        .kind = KV_EVENT_STORED,
        .hashes = hash,
        .hash_count = 1,
        .tokens = counted,
        .token_count = 4,
        .block_tokens = 4,
        .medium = "GPU",
        .has_group = true,
        .spec_kind = "full_attention",
    };
}

static struct kv_event removed(const uint64_t *hash)
{
    return (struct kv_event){
        .kind = KV_EVENT_REMOVED,
        .hashes = hash,
        .hash_count = 1,
        .medium = "GPU",
        .has_group = true,
    };
}

static struct kv_hash_form form_of(const char *name)
{
    struct kv_hash_form form = {.format = kv_event_format_find(name)};
    ASSERT(form.format != NULL);
    return form;
}

// The batch in hexadecimal digits, in space that the next call uses again.
static const char *batch_of(struct kv_hash_form form, int32_t rank, const struct kv_event *events,
                            uint32_t count)
{
    static uint8_t inner_space[1024];
    static uint8_t outer_space[1024];
    static char digits[2 * sizeof(outer_space) + 1];
    struct text inner = text_over(inner_space, sizeof(inner_space));
    struct text outer = text_over(outer_space, sizeof(outer_space));

    for (uint32_t i = 0; i < count; i++) {
        kv_event_write(form, &events[i], &inner);
    }
    kv_batch_write(form.format,
                   &(struct kv_batch){.seconds = 1755907200.5,
                                      .events = text_slice(&inner),
                                      .event_count = count,
                                      .rank = rank},
                   &outer);
    ASSERT(!inner.overflow && !outer.overflow);
    for (size_t i = 0; i < outer.size; i++) {
        snprintf(digits + 2 * i, 3, "%02x", outer_space[i]);
    }
    return digits;
}

TEST(release_0_9_0_has_six_fields_and_no_rank)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    CHECK_STR(batch_of(form_of("vllm-0.9.0"), 0, events, 1),
              "92cb41da2a41202000009196ab426c6f636b53746f72656491cf2ceabcfae6d332eac09401020304"
              "04c0");
}

TEST(release_0_9_1_has_signed_hashes_and_a_rank)
{
    const uint64_t hash = 0xa000000000000000;
    struct kv_event events[] = {stored(&hash)};
    CHECK_STR(batch_of(form_of("vllm-0.9.1"), 0, events, 1),
              "93cb41da2a41202000009196ab426c6f636b53746f72656491d3a000000000000000c09401020304"
              "04c000");
}

TEST(release_0_10_2_adds_the_medium)
{
    const uint64_t hash = HASH_2;
    const uint32_t tokens[] = {5, 6, 7, 300};
    struct kv_event events[] = {stored(&hash)};
    events[0].has_parent = true;
    events[0].parent = HASH_1;
    events[0].tokens = tokens;
    CHECK_STR(batch_of(form_of("vllm-0.10.2"), 0, events, 1),
              "93cb41da2a41202000009197ab426c6f636b53746f72656491cfa4c717290894d44fcf2ceabcfae6"
              "d332ea94050607cd012c04c0a347505500");
}

TEST(release_0_14_adds_the_name_of_the_adapter)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    events[0].lora_id = 1;
    events[0].lora_name = "lora-a";
    CHECK_STR(batch_of(form_of("vllm-0.14"), 0, events, 1),
              "93cb41da2a41202000009198ab426c6f636b53746f72656491cf2ceabcfae6d332eac09401020304"
              "0401a3475055a66c6f72612d6100");
}

TEST(release_0_17_adds_the_extra_keys)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    events[0].lora_id = 1;
    events[0].lora_name = "lora-a";
    events[0].salt = "salt";
    CHECK_STR(batch_of(form_of("vllm-0.17"), 0, events, 1),
              "93cb41da2a41202000009199ab426c6f636b53746f72656491cf2ceabcfae6d332eac09401020304"
              "0401a3475055a66c6f72612d619192a66c6f72612d61a473616c7400");
}

TEST(release_0_20_adds_the_group)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    CHECK_STR(batch_of(form_of("vllm-0.20"), 0, events, 1),
              "93cb41da2a4120200000919aab426c6f636b53746f72656491cf2ceabcfae6d332eac09401020304"
              "04c0a3475055c091c00000");
}

TEST(release_0_22_adds_the_kind_of_cache)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    CHECK_STR(batch_of(form_of("vllm-0.22"), 0, events, 1),
              "93cb41da2a4120200000919cab426c6f636b53746f72656491cf2ceabcfae6d332eac09401020304"
              "04c0a3475055c091c000ae66756c6c5f617474656e74696f6ec000");
}

TEST(removal_and_clearing_as_arrays)
{
    const uint64_t hash = HASH_3;
    struct kv_event events[] = {removed(&hash), {.kind = KV_EVENT_CLEARED}};
    CHECK_STR(batch_of(form_of("vllm-0.20"), -1, events, 2),
              "93cb41da2a41202000009294ac426c6f636b52656d6f76656491cf1122334455667788a347505500"
              "91b0416c6c426c6f636b73436c6561726564c0");
}

TEST(maps_since_0_24_leave_out_nil_fields)
{
    const uint64_t hashes[] = {HASH_1, HASH_2};
    const uint64_t gone = HASH_3;
    uint32_t tokens[32];
    for (uint32_t i = 0; i < 16; i++) {
        tokens[i] = 1 + i;
        tokens[16 + i] = 1000 + i;
    }
    struct kv_event events[] = {stored(hashes), removed(&gone), {.kind = KV_EVENT_CLEARED}};
    events[0].hash_count = 2;
    events[0].tokens = tokens;
    events[0].token_count = 32;
    events[0].block_tokens = 16;
    const char *expected =
        "93cb41da2a4120200000938ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
        "657392cf2ceabcfae6d332eacfa4c717290894d44fb1706172656e745f626c6f636b5f68617368c0"
        "a9746f6b656e5f696473dc00200102030405060708090a0b0c0d0e0f10cd03e8cd03e9cd03eacd03"
        "ebcd03eccd03edcd03eecd03efcd03f0cd03f1cd03f2cd03f3cd03f4cd03f5cd03f6cd03f7aa626c"
        "6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0"
        "aa65787472615f6b65797392c0c0a967726f75705f69647800b26b765f63616368655f737065635f"
        "6b696e64ae66756c6c5f617474656e74696f6e84a474797065ac426c6f636b52656d6f766564ac62"
        "6c6f636b5f68617368657391cf1122334455667788a66d656469756da3475055a967726f75705f69"
        "64780081a474797065b0416c6c426c6f636b73436c656172656400";
    CHECK_STR(batch_of(form_of("vllm-0.24"), 0, events, 3), expected);
    CHECK_STR(batch_of(form_of("vllm"), 0, events, 3), expected);
}

TEST(another_tier_and_its_place)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash), removed(&hash)};
    events[0].token_count = 0;
    events[0].block_tokens = 0;
    events[0].spec_kind = NULL;
    for (int i = 0; i < 2; i++) {
        events[i].medium = "CPU";
        events[i].locality = "LOCAL";
    }
    CHECK_STR(batch_of(form_of("vllm"), 3, events, 2),
              "93cb41da2a4120200000928aa474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
              "657391cf2ceabcfae6d332eab1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964"
              "7390aa626c6f636b5f73697a6500a76c6f72615f6964c0a66d656469756da3435055a96c6f72615f"
              "6e616d65c0a967726f75705f69647800a86c6f63616c697479a54c4f43414c85a474797065ac426c"
              "6f636b52656d6f766564ac626c6f636b5f68617368657391cf2ceabcfae6d332eaa66d656469756d"
              "a3435055a967726f75705f69647800a86c6f63616c697479a54c4f43414c03");
}

// Only the end of a digest is ours to choose: the rest is what a hash function made of the tokens.
TEST(digests_are_bytes_that_end_with_the_hash)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    struct kv_hash_form form = form_of("vllm");
    form.is_digest = true;
    char expected[] =
        "93cb41da2a4120200000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
        "657391c420202da172482d928bbc42ab25b0151e2b895f13f41002e27b2ceabcfae6d332eab17061"
        "72656e745f626c6f636b5f68617368c0a9746f6b656e5f6964739401020304aa626c6f636b5f7369"
        "7a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa6578747261"
        "5f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae6675"
        "6c6c5f617474656e74696f6e00";
    uint8_t digest[kv_digest_size];
    kv_digest(hash, digest);
    for (uint32_t i = 0; i < 24; i++) {
        static const char digits[] = "0123456789abcdef";
        expected[90 + 2 * i] = digits[digest[i] >> 4];
        expected[91 + 2 * i] = digits[digest[i] & 15];
    }
    CHECK_STR(batch_of(form, 0, events, 1), expected);
}

TEST(formats_without_digests_write_integers)
{
    const uint64_t hash = HASH_1;
    struct kv_event events[] = {stored(&hash)};
    struct kv_hash_form form = form_of("sglang");
    char plain[4096];
    snprintf(plain, sizeof(plain), "%s", batch_of(form, 0, events, 1));
    form.is_digest = true;
    CHECK_STR(batch_of(form, 0, events, 1), plain);
}

TEST(a_sliding_window_lists_the_blocks_that_are_left)
{
    const uint64_t hash = HASH_2;
    struct kv_event events[] = {stored(&hash)};
    events[0].token_count = 12;
    events[0].group = 1;
    events[0].spec_kind = "sliding_window";
    events[0].window = 128;
    CHECK_STR(batch_of(form_of("vllm"), 0, events, 1),
              "93cb41da2a4120200000918ca474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
              "657391cfa4c717290894d44fb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964"
              "739c0102030405060708090a0b0caa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469"
              "756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f696478"
              "01b26b765f63616368655f737065635f6b696e64ae736c6964696e675f77696e646f77bc6b765f63"
              "616368655f737065635f736c6964696e675f77696e646f77cc8000");
}

TEST(sglang_has_arrays_and_signed_hashes)
{
    const uint64_t hashes[] = {0xcf97adeedb59e05b, 0x4ebfa8a1f3c34151};
    struct kv_event events[] = {stored(hashes), removed(&hashes[1]), {.kind = KV_EVENT_CLEARED}};
    events[0].hash_count = 2;
    events[0].token_count = 8;
    CHECK_STR(batch_of(form_of("sglang"), 0, events, 3),
              "93cb41da2a41202000009397ab426c6f636b53746f72656492d3cf97adeedb59e05bcf4ebfa8a1f3"
              "c34151c098010203040506070804c0a347505593ac426c6f636b52656d6f76656491cf4ebfa8a1f3"
              "c34151a347505591b0416c6c426c6f636b73436c656172656400");
}

TEST(sglang_writes_the_salt_in_a_map_at_the_end)
{
    const uint64_t hash = 0x339927f491605c4b;
    struct kv_event events[] = {stored(&hash)};
    events[0].salt = "tenant-a";
    CHECK_STR(batch_of(form_of("sglang"), 1, events, 1),
              "93cb41da2a41202000009198ab426c6f636b53746f72656491cf339927f491605c4bc09401020304"
              "04c0a347505581aa63616368655f73616c74a874656e616e742d6101");
}

TEST(tensorrt_llm_has_maps_without_groups)
{
    const uint64_t hash = 0xcf97adeedb59e05b;
    struct kv_event events[] = {stored(&hash), removed(&hash)};
    CHECK_STR(batch_of(form_of("trtllm"), 2, events, 2),
              "93cb41da2a41202000009288a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
              "657391d3cf97adeedb59e05bb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964"
              "739401020304aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c"
              "6f72615f6e616d65c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865"
              "7391d3cf97adeedb59e05ba66d656469756da347505502");
}

TEST(numbers_take_their_shortest_form)
{
    static const struct {
        uint64_t hash;
        const char *as_unsigned;
        const char *as_signed;
    } cases[] = {
        {0, "00", "00"},
        {0x7f, "7f", "7f"},
        {0x80, "cc80", "cc80"},
        {0x100, "cd0100", "cd0100"},
        {0x10000, "ce00010000", "ce00010000"},
        {0x100000000, "cf0000000100000000", "cf0000000100000000"},
        {UINT64_MAX, "cfffffffffffffffff", "ff"},
        {(uint64_t)-32, "cfffffffffffffffe0", "e0"},
        {(uint64_t)-33, "cfffffffffffffffdf", "d0df"},
        {(uint64_t)-129, "cfffffffffffffff7f", "d1ff7f"},
        {(uint64_t)-32769, "cfffffffffffff7fff", "d2ffff7fff"},
        {(uint64_t)INT32_MIN - 1, "cfffffffff7fffffff", "d3ffffffff7fffffff"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct kv_event event = removed(&cases[i].hash);
        const char *head = "93cb41da2a41202000009193ac426c6f636b52656d6f76656491";
        char expected[128];
        snprintf(expected, sizeof(expected), "%s%sa347505500", head, cases[i].as_unsigned);
        CHECK_STR(batch_of(form_of("vllm-0.10.2"), 0, &event, 1), expected);
        snprintf(expected, sizeof(expected), "%s%sa347505500", head, cases[i].as_signed);
        CHECK_STR(batch_of(form_of("sglang"), 0, &event, 1), expected);
    }
}

TEST(long_lists_and_strings_write_their_length_in_more_bytes)
{
    static uint64_t hashes[70000];
    static uint8_t space[1 << 17];
    char name[301];
    struct text out = text_over(space, sizeof(space));
    struct kv_event event = removed(hashes);

    event.hash_count = ARRAY_COUNT(hashes);
    kv_event_write(form_of("vllm-0.10.2"), &event, &out);
    CHECK(!out.overflow);
    CHECK_EQ(out.size, 1 + 13 + 5 + 70000 + 4);
    CHECK(memcmp(space + 14, "\xdd\x00\x01\x11\x70", 5) == 0);

    memset(name, 'n', sizeof(name));
    static const struct {
        size_t size;
        const char *head;
    } cases[] = {{31, "\xbf"}, {32, "\xd9\x20"}, {255, "\xd9\xff"}, {300, "\xda\x01\x2c"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        out = text_over(space, sizeof(space));
        name[cases[i].size] = '\0';
        event = (struct kv_event){.kind = KV_EVENT_REMOVED, .medium = name};
        kv_event_write(form_of("vllm-0.10.2"), &event, &out);
        name[cases[i].size] = 'n';
        CHECK_EQ(out.size, 15 + strlen(cases[i].head) + cases[i].size);
        CHECK(memcmp(space + 15, cases[i].head, strlen(cases[i].head)) == 0);
    }
}

TEST(an_event_that_does_not_fit_overflows)
{
    const uint64_t hash = HASH_1;
    struct kv_event event = stored(&hash);
    uint8_t space[256];
    struct text whole = text_over(space, sizeof(space));
    kv_event_write(form_of("vllm"), &event, &whole);
    CHECK(!whole.overflow);
    for (size_t capacity = 0; capacity < whole.size; capacity++) {
        struct text out = text_over(space, capacity);
        kv_event_write(form_of("vllm"), &event, &out);
        CHECK(out.overflow);
    }
}

TEST(every_format_is_found_by_its_name_and_knows_no_field_too_many)
{
    const uint64_t hash = HASH_1;
    uint32_t count = 0;
    for (; kv_event_format_at(count) != NULL; count++) {
        const struct kv_event_format *format = kv_event_format_at(count);
        struct kv_event events[] = {stored(&hash), removed(&hash), {.kind = KV_EVENT_CLEARED}};
        CHECK(kv_event_format_find(format->name) == format);
        CHECK(format->summary[0] != '\0');
        batch_of((struct kv_hash_form){.format = format}, 0, events, 3);
    }
    CHECK_EQ(count, 11);
    CHECK(kv_event_format_find("vllm-0.1") == NULL);
    CHECK_STR(kv_event_format_at(0)->name, "vllm");
}
