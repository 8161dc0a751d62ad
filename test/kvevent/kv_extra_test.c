// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"
#include "kvevent/kv_extra_internal.h"
#include "pack_json.h"
#include "test.h"

#include <stdlib.h>

static struct kv_extras extras;

struct fixture {
    struct kv_notice notice;
    bool is_list;
    bool has_room;
};

// Reads the lists for an event of so many blocks.  NULL: the engine has no such list.
static struct fixture read_lists(struct kv_notice notice, const char *keys, const char *media)
{
    static uint8_t copies[2][1 << 16];
    const char *texts[] = {keys, media};
    struct kv_key_list lists[2] = {0};
    struct fixture fixture = {.notice = notice, .is_list = true};

    for (int i = 0; i < 2; i++) {
        struct slice packed = pack_json(texts[i] != NULL ? texts[i] : "null");
        ASSERT(packed.size <= sizeof(copies[i]));
        memcpy(copies[i], packed.bytes, packed.size);
        struct msgpack cursor = msgpack_open(slice_of(copies[i], packed.size));
        struct msgpack_value value;
        ASSERT(msgpack_next(&cursor, &value));
        fixture.is_list = fixture.is_list && kv_key_list_read(&cursor, &value, &lists[i]);
        ASSERT(!fixture.is_list || cursor.at == cursor.end);
    }
    fixture.has_room =
        fixture.is_list && kv_extras_read(&extras, &lists[0], &lists[1], &fixture.notice);
    return fixture;
}

// "block:size=key,size=key block:..." with bytes that are no letters as hexadecimal digits.
static const char *summary(const struct fixture *fixture)
{
    static char space[1024];
    struct text out = text_over(space, sizeof(space) - 1);
    for (uint32_t i = 0; i < fixture->notice.extra_count; i++) {
        const struct kv_extra *extra = &fixture->notice.extras[i];
        text_add_format(&out, "%s%u:", i > 0 ? " " : "", extra->block);
        for (size_t at = 0; at < extra->bytes.size;) {
            const uint8_t *key = extra->bytes.bytes + at;
            uint32_t size = key[0] | (uint32_t)key[1] << 8 | (uint32_t)key[2] << 16;
            text_add_format(&out, "%s%u=", at > 0 ? "," : "", size);
            for (uint32_t k = 0; k < size; k++) {
                bool is_letter = key[4 + k] >= 'a' && key[4 + k] <= 'z';
                text_add_format(&out, is_letter ? "%c" : "%02x", key[4 + k]);
            }
            at += 4 + size;
        }
    }
    ASSERT(!out.overflow);
    space[out.size] = '\0';
    return space;
}

static struct kv_notice blocks(uint32_t count)
{
    return (struct kv_notice){.hash_count = count};
}

TEST(nothing_is_nothing)
{
    static const char *const cases[] = {"null", "[]", "[null,null]", "[[],null]"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct fixture fixture = read_lists(blocks(2), cases[i], NULL);
        CHECK(fixture.has_room);
        CHECK_EQ(fixture.notice.extra_count, 0);
        CHECK_EQ(fixture.notice.salt.size, 0);
    }
}

TEST(the_adapter_is_in_every_block_and_the_salt_in_the_first)
{
    struct kv_notice notice = blocks(2);
    notice.adapter = slice_str("lora");
    struct fixture fixture = read_lists(notice, "[['lora','salt'],['lora']]", NULL);
    CHECK_STR(summary(&fixture), "");
    CHECK(slice_is(fixture.notice.salt, "salt"));
}

TEST(a_string_is_a_salt_only_in_the_first_block_of_a_prompt)
{
    struct kv_notice notice = blocks(2);
    notice.has_parent = true;
    struct fixture fixture = read_lists(notice, "[['image'],['image']]", NULL);
    CHECK_STR(summary(&fixture), "0:5=image 1:5=image");
    CHECK_EQ(fixture.notice.salt.size, 0);

    fixture = read_lists(blocks(2), "[null,['image']]", NULL);
    CHECK_STR(summary(&fixture), "1:5=image");
    CHECK_EQ(fixture.notice.salt.size, 0);
}

TEST(images_and_digests_are_neither_adapter_nor_salt)
{
    struct kv_notice notice = blocks(3);
    notice.adapter = slice_str("lora");
    struct fixture fixture = read_lists(
        notice, "[['lora',['img',-3],'salt','hex:01010101'],null,['lora',['img',-19]]]", NULL);
    CHECK_STR(summary(&fixture), "0:6=92a3imgfd,4=01010101 2:6=92a3imged");
    CHECK(slice_is(fixture.notice.salt, "salt"));
}

TEST(of_two_strings_the_last_is_the_salt)
{
    struct fixture fixture = read_lists(blocks(1), "[['image','salt']]", NULL);
    CHECK_STR(summary(&fixture), "0:5=image");
    CHECK(slice_is(fixture.notice.salt, "salt"));
}

TEST(a_salt_that_is_known_makes_strings_of_the_others)
{
    struct kv_notice notice = blocks(1);
    notice.salt = slice_str("tenant");
    struct fixture fixture = read_lists(notice, "[['image']]", NULL);
    CHECK_STR(summary(&fixture), "0:5=image");
    CHECK(slice_is(fixture.notice.salt, "tenant"));
}

TEST(media_keys_are_kept_as_they_are)
{
    struct fixture fixture = read_lists(blocks(2), NULL, "[[],[{'a':1},{'b':2}]]");
    CHECK_STR(summary(&fixture), "1:4=81a1a01,4=81a1b02");
    fixture = read_lists(blocks(2), "[['s',['i']],['j']]", "[[{'a':1}],null]");
    CHECK_STR(summary(&fixture), "0:3=91a1i,4=81a1a01 1:1=j");
    CHECK(slice_is(fixture.notice.salt, "s"));
}

TEST(a_single_key_need_not_be_a_list)
{
    struct fixture fixture = read_lists(blocks(3), "['salt','x',7]", NULL);
    CHECK_STR(summary(&fixture), "1:1=x 2:1=07");
    CHECK(slice_is(fixture.notice.salt, "salt"));
}

TEST(keys_of_blocks_that_are_not_there_are_left_out)
{
    struct kv_notice notice = blocks(1);
    notice.has_parent = true;
    struct fixture fixture = read_lists(notice, "[['a'],['b'],['c']]", NULL);
    CHECK_STR(summary(&fixture), "0:1=a");
    notice.hash_count = 0;
    fixture = read_lists(notice, "[['a']]", NULL);
    CHECK(fixture.has_room);
    CHECK_STR(summary(&fixture), "");
}

TEST(values_that_are_not_lists_are_refused)
{
    static const char *const cases[] = {"{}", "7", "'text'", "true"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK(!read_lists(blocks(1), cases[i], NULL).is_list);
    }
}

// Keys that would not fit even once, and more blocks than an event may have.
TEST(limits_are_kept)
{
    enum { key_size = 65535, block_count = 65 };
    static uint8_t bytes[8 + block_count * (key_size + 4)];
    size_t size = 3;

    static const uint8_t list_head[] = {0xdc, 0, block_count};
    static const uint8_t key_head[] = {0x91, 0xda, 0xff, 0xff};
    memcpy(bytes, list_head, sizeof(list_head));
    for (uint32_t i = 0; i < block_count; i++) {
        memcpy(bytes + size, key_head, sizeof(key_head));
        size += 4 + key_size;
    }
    for (uint32_t count = block_count - 2; count <= block_count; count++) {
        struct msgpack cursor = msgpack_open(slice_of(bytes, size));
        struct msgpack_value value;
        struct kv_key_list keys;
        struct kv_key_list none = {0};
        struct kv_notice notice = {.hash_count = count, .has_parent = true};
        CHECK(msgpack_next(&cursor, &value));
        CHECK(kv_key_list_read(&cursor, &value, &keys));
        CHECK_EQ(kv_extras_read(&extras, &keys, &none, &notice),
                 (uint64_t)count * (key_size + 4) <= kv_extra_max);
    }

    static uint8_t nils[kv_hash_max + 1];
    memset(nils, 0xc0, sizeof(nils));
    for (uint32_t extra = 0; extra < 2; extra++) {
        struct msgpack cursor = msgpack_open(slice_of(nils, sizeof(nils)));
        struct msgpack_value value = {.kind = MSGPACK_ARRAY, .number = kv_hash_max + extra};
        struct kv_key_list keys;
        CHECK_EQ(kv_key_list_read(&cursor, &value, &keys), extra == 0);
    }
}
