// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_json.h"
#include "kvevent/kv_json_lines.h"

// Numbers that no double can hold, and both spellings of one hash.
TEST(hashes_are_64_bits_and_every_one_counts)
{
    CHECK_STR(read_all("[{'type':'removed','block_hashes':[9007199254740993,"
                       "18446744073709551615,-1,-9223372036854775808,9223372036854775808,-0,"
                       "'00ffeeddccbbaa99887766554433221100']}]"),
              "removed gpu 20000000000001,ffffffffffffffff,ffffffffffffffff,8000000000000000,"
              "8000000000000000,0,7766554433221100\n");
}

TEST(an_invalid_hash_spoils_only_its_event)
{
    static const char *const wrong[] = {"18446744073709551616",
                                        "-9223372036854775809",
                                        "1.0",
                                        "1e3",
                                        "''",
                                        "'0x'",
                                        "'xyz'",
                                        "null",
                                        "[1]",
                                        "true"};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        char document[256];
        snprintf(document, sizeof(document),
                 "[{'type':'removed','block_hashes':[7,%s]},{'type':'cleared'}]", wrong[i]);
        CHECK_STR(read_all(document),
                  "malformed at 0: block_hashes has something that is neither an integer of 64 "
                  "bits nor hexadecimal\ncleared\n");
    }
}

// As many of a kind as a notice has room for, and one more.
static const char *long_list(const char *head, const char *element, size_t count, const char *tail)
{
    static char *space;
    size_t size = strlen(head) + count * (strlen(element) + 1) + strlen(tail) + 1;
    free(space);
    space = malloc(size);
    ASSERT(space != NULL);
    struct text text = text_over(space, size);
    text_add_str(&text, head);
    for (size_t i = 0; i < count; i++) {
        text_add_str(&text, i > 0 ? "," : "");
        text_add_str(&text, element);
    }
    text_add_str(&text, tail);
    ASSERT(!text.overflow && text.size < size);
    space[text.size] = '\0';
    return space;
}

static bool reads_one(const char *document, struct kv_notice *out)
{
    return begin(document, NULL) == STATUS_OK && kv_json_next(reader, out) == STATUS_OK;
}

TEST(events_have_limits)
{
    static const char removed[] = "[{'type':'removed','block_hashes':[";
    static const char stored[] =
        "[{'type':'stored','block_hashes':[1],'block_size':1048576,'token_ids':[";
    static const char blocks[] = "[{'data':{'type':'stored','blocks':[";
    static const char tokens[] = "[{'data':{'type':'stored','blocks':[{'block_hash':1,"
                                 "'tokens':[";
    static const char block[] = "{'block_hash':1,'tokens':[]}";
    struct kv_notice notice;

    CHECK(reads_one(long_list(removed, "1", kv_hash_max, "]}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_REMOVED && notice.hash_count == kv_hash_max);
    CHECK(reads_one(long_list(removed, "1", kv_hash_max + 1, "]}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_MALFORMED);
    CHECK(reads_one(long_list(stored, "1", kv_token_max, "]}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_STORED && notice.token_count == kv_token_max);
    CHECK(reads_one(long_list(stored, "1", kv_token_max + 1, "]}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_MALFORMED);
    CHECK(reads_one(long_list(tokens, "{'token_id':1}", kv_token_max, "]}]}}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_STORED && notice.token_count == kv_token_max);
    CHECK(reads_one(long_list(tokens, "{'token_id':1}", kv_token_max + 1, "]}]}}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_MALFORMED);
    CHECK(reads_one(long_list(blocks, block, kv_hash_max + 1, "]}}]"), &notice));
    CHECK(notice.kind == KV_NOTICE_STORED && notice.hash_count == kv_hash_max);
    CHECK(kv_json_next(reader, &notice) == STATUS_OK);
    CHECK(notice.hash_count == 1 && notice.has_parent);
    CHECK(kv_json_next(reader, &notice) == STATUS_CLOSED);
    kv_json_destroy(&reader);
}
