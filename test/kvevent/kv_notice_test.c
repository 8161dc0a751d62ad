// SPDX-License-Identifier: Apache-2.0
//
// First batches that the engines' own encoders made, which are the corpus of the fuzz target;
// then disputable cases one by one; then random events of every format, as the simulated engine
// writes them.

#include "kvevent/kv_notice.h"

#include "base/rng.h"
#include "base/text.h"
#include "kvevent/msgpack.h"
#include "pack_json.h"
#include "sim/engine/kv_event_writer.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// One reader for all tests: what one event leaves must not show in the next.
static struct kv_reader *shared_reader(void)
{
    static struct kv_reader *reader;
    if (reader == NULL) {
        reader = kv_reader_create();
        ASSERT(reader != NULL);
    }
    return reader;
}

static void add_list(struct text *out, const char *name, const uint32_t *numbers, uint32_t count)
{
    text_add_format(out, " %s", name);
    for (uint32_t i = 0; i < count; i++) {
        text_add_format(out, "%s%u", i > 0 ? "," : "=", numbers[i]);
    }
}

static void add_slice(struct text *out, const char *name, struct slice bytes)
{
    if (bytes.size > 0) {
        text_add_format(out, " %s=%.*s", name, (int)bytes.size, (const char *)bytes.bytes);
    }
}

// A notice in words, without what is usual: on the GPU, plain, deciding, here.
static void add_notice(struct text *out, const struct kv_notice *notice)
{
    static const char *const kinds[] = {"stored", "removed", "cleared", "unknown", "malformed"};
    static const char *const tiers[] = {"", " host", " disk"};

    text_add_str(out, kinds[notice->kind]);
    if (notice->kind >= KV_NOTICE_CLEARED) {
        return;
    }
    for (uint32_t i = 0; i < notice->hash_count; i++) {
        text_add_format(out, " %" PRIx64, notice->hashes[i]);
    }
    if (notice->has_parent) {
        text_add_format(out, " after %" PRIx64 "%s", notice->parent,
                        notice->may_begin ? " or none" : "");
    }
    if (notice->kind == KV_NOTICE_STORED) {
        text_add_format(out, " size=%u", notice->block_tokens);
        add_list(out, "tokens", notice->tokens, notice->token_count);
    }
    if (notice->copies_left != NULL) {
        add_list(out, "left", notice->copies_left, notice->hash_count);
    }
    if (notice->has_group) {
        text_add_format(out, " group=%u", notice->group);
    }
    text_add_str(out, tiers[notice->tier]);
    text_add_str(out, notice->decides ? "" : " sparse");
    text_add_str(out, notice->is_plain ? "" : " pairs");
    text_add_str(out, notice->is_remote ? " remote" : "");
    add_slice(out, "adapter", notice->adapter);
    add_slice(out, "salt", notice->salt);
    for (uint32_t i = 0; i < notice->extra_count; i++) {
        text_add_format(out, " extra %u:%zu", notice->extras[i].block,
                        notice->extras[i].bytes.size);
    }
}

// All notices of a batch, and how it ended, in space that the next call uses again.
static const char *notices_of(struct slice payload)
{
    static char space[1 << 16];
    struct text out = text_over(space, sizeof(space) - 1);
    struct kv_reader *reader = shared_reader();
    struct kv_notice notice;

    enum status status = kv_reader_begin(reader, payload);
    if (status == STATUS_OK) {
        while ((status = kv_reader_next(reader, &notice)) == STATUS_OK) {
            add_notice(&out, &notice);
            text_add_str(&out, "; ");
        }
    }
    if (status == STATUS_CLOSED) {
        text_add_format(&out, "rank %" PRId64, kv_reader_rank(reader));
    } else {
        text_add_str(&out, status_text(status));
    }
    ASSERT(!out.overflow);
    space[out.size] = '\0';
    return space;
}

// The same of a batch with this one event, without the rank.
static const char *notice_of(const char *event)
{
    static char space[1 << 12];
    char batch[1 << 12];
    snprintf(batch, sizeof(batch), "[1.5,[%s],0]", event);
    const char *all = notices_of(pack_json(batch));
    const char *end = strstr(all, "; rank 0");
    snprintf(space, sizeof(space), "%.*s", end != NULL ? (int)(end - all) : 100, all);
    return space;
}

static struct slice corpus(const char *name)
{
    static uint8_t bytes[4096];
    char path[512];
    snprintf(path, sizeof(path), "%s/fuzz/corpus/kv_notice/%s", SOURCE_ROOT, name);
    FILE *file = fopen(path, "rb");
    ASSERT(file != NULL);
    size_t size = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    return slice_of(bytes, size);
}

#define H1 "2ceabcfae6d332ea"
#define H2 "a4c717290894d44f"

static const struct {
    const char *name;
    const char *notices;
} recorded[] = {
    {"A_vllm_0_9_0", "stored " H1 " size=4 tokens=1,2,3,4; rank -1"},
    {"B_vllm_0_9_1_signed", "stored a000000000000000 size=4 tokens=1,2,3,4; rank 0"},
    {"C_vllm_0_10_2_parent", "stored " H2 " after " H1 " size=4 tokens=5,6,7,300; rank 0"},
    {"D_vllm_0_14_adapter", "stored " H1 " size=4 tokens=1,2,3,4 adapter=lora-a; rank 0"},
    {"E_vllm_0_17_salt", "stored " H1 " size=4 tokens=1,2,3,4 adapter=lora-a salt=salt; rank 0"},
    {"F_vllm_0_20", "stored " H1 " size=4 tokens=1,2,3,4 group=0; rank 0"},
    {"G_vllm_0_22", "stored " H1 " size=4 tokens=1,2,3,4 group=0; rank 0"},
    {"H_vllm_0_20_removed_cleared", "removed 1122334455667788 group=0; cleared; rank -1"},
    {"I_vllm_0_24_maps",
     "stored " H1 " " H2 " size=16 tokens=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,1000,1001,1002,"
     "1003,1004,1005,1006,1007,1008,1009,1010,1011,1012,1013,1014,1015 group=0; "
     "removed 1122334455667788 group=0; cleared; rank 0"},
    {"J_vllm_0_26_placeholder",
     "stored " H1 " size=0 tokens group=0 host; removed " H1 " group=0 host; rank 3"},
    {"K_vllm_digest", "stored " H1 " size=4 tokens=1,2,3,4 group=0; rank 0"},
    {"L_vllm_sliding_window",
     "stored " H2 " size=4 tokens=1,2,3,4,5,6,7,8,9,10,11,12 group=1 sparse; rank 0"},
    {"M_sglang", "stored cf97adeedb59e05b 4ebfa8a1f3c34151 size=4 tokens=1,2,3,4,5,6,7,8; "
                 "removed 4ebfa8a1f3c34151; cleared; rank 0"},
    {"N_sglang_salt", "stored 339927f491605c4b size=4 tokens=1,2,3,4 salt=tenant-a; rank 1"},
    {"O_sglang_pairs", "stored f721fe42aac11dcb size=4 tokens pairs; rank 0"},
    {"P_trtllm", "stored cf97adeedb59e05b size=4 tokens=1,2,3,4; removed cf97adeedb59e05b; rank 2"},
};

TEST(batches_of_every_engine_and_release_are_understood)
{
    for (size_t i = 0; i < ARRAY_COUNT(recorded); i++) {
        CHECK_STR(notices_of(corpus(recorded[i].name)), recorded[i].notices);
    }
}

// Whether the first bytes of a batch give the first of its notices, and then no more.
static bool begins_alike(struct slice whole, size_t size, const char *notices)
{
    // A block of its own, so that a sanitizer sees one byte too far.
    uint8_t *part = malloc(size + 1);
    ASSERT(part != NULL);
    memcpy(part, whole.bytes, size);
    const char *found = notices_of(slice_of(part, size));
    const char *end = strstr(found, status_text(STATUS_MALFORMED));
    free(part);
    return end != NULL && strncmp(found, notices, (size_t)(end - found)) == 0;
}

TEST(a_batch_has_its_time_where_engines_write_it)
{
    struct kv_reader *reader = shared_reader();
    static const struct {
        const char *batch;
        double seconds;
    } cases[] = {
        {"[1755907200.5,[],0]", 1755907200.5},
        {"{\"ts\":1755907200.5,\"events\":[]}", 1755907200.5},
        {"[17,[],0]", NAN},
        {"[null,[]]", NAN},
        {"{\"events\":[]}", NAN},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(kv_reader_begin(reader, pack_json(cases[i].batch)), STATUS_OK);
        double seconds = kv_reader_seconds(reader);
        CHECK(isnan(cases[i].seconds) ? isnan(seconds) : seconds == cases[i].seconds);
    }
}

TEST(a_batch_that_is_cut_off_keeps_the_notices_before)
{
    for (size_t i = 0; i < ARRAY_COUNT(recorded); i++) {
        struct slice whole = corpus(recorded[i].name);
        size_t size = 0;
        while (size < whole.size && begins_alike(whole, size, recorded[i].notices)) {
            size++;
        }
        CHECK_EQ(size, whole.size);
    }
}

TEST(fields_of_a_map_come_in_any_order_with_others_between)
{
    CHECK_STR(notice_of("{'session_id':'x','remaining':[[1],{}],'token_ids':[7,8],'block_size':2,"
                        "'extra_keys':[['a','s']],'lora_name':'a','parent_block_hash':null,"
                        "'block_hashes':[1],'new':{'type':'BlockRemoved'},'type':'BlockStored'}"),
              "stored 1 size=2 tokens=7,8 adapter=a salt=s");
    CHECK_STR(notice_of("{'remaining_copy_counts':[3],'block_hashes':[1],'type':'BlockRemoved'}"),
              "removed 1 left=3");
}

TEST(arrays_may_be_longer_and_shorter_than_any_release)
{
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,null,'GPU',null,null,0,null,null,'REMOTE',"
                        "'more',[1,2],{'a':1}]"),
              "stored 1 size=1 tokens=7 group=0 remote");
    CHECK_STR(notice_of("['BlockStored',[1]]"), "stored 1 size=0 tokens");
    CHECK_STR(notice_of("['BlockRemoved',[1,2],'CPU',3,'REMOTE',4]"),
              "removed 1 2 group=3 host remote");
    CHECK_STR(notice_of("['AllBlocksCleared',1,[2]]"), "cleared");
}

TEST(salt_comes_by_name_in_maps_and_behind_arrays)
{
    CHECK_STR(notice_of("{'type':'BlockStored','block_hashes':[1],'token_ids':[7],'block_size':1,"
                        "'cache_salt':'t','session_id':'s'}"),
              "stored 1 size=1 tokens=7 salt=t");
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,null,'GPU',{'x':[1],'cache_salt':'t'}]"),
              "stored 1 size=1 tokens=7 salt=t");
}

TEST(hashes_are_numbers_or_bytes)
{
    CHECK_STR(notice_of("['BlockRemoved',[0,255,-1,18446744073709551615,-9223372036854775808]]"),
              "removed 0 ff ffffffffffffffff ffffffffffffffff 8000000000000000");
    CHECK_STR(notice_of("['BlockRemoved',['hex:0102030405060708090a','hex:ff01','hex:',5,'ab']]"),
              "removed 30405060708090a ff01 0 5 6162");
    CHECK_STR(notice_of("['BlockStored',[1],'hex:000102030405060708',[7],1]"),
              "stored 1 after 102030405060708 size=1 tokens=7");
    CHECK_STR(notice_of("['BlockStored',[1],-2,[7],1]"),
              "stored 1 after fffffffffffffffe size=1 tokens=7");
}

TEST(a_parent_of_0_may_mean_none_in_an_array)
{
    CHECK_STR(notice_of("['BlockStored',[1],0,[7],1,null,'GPU',null,[['salt']]]"),
              "stored 1 after 0 or none size=1 tokens=7 salt=salt");
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1]"), "stored 1 size=1 tokens=7");
    CHECK_STR(notice_of("['BlockStored',[1],'hex:0000000000000000',[7],1]"),
              "stored 1 after 0 size=1 tokens=7");
    CHECK_STR(notice_of("{'type':'BlockStored','block_hashes':[1],'parent_block_hash':0,"
                        "'token_ids':[7],'block_size':1}"),
              "stored 1 after 0 size=1 tokens=7");
}

#define GONE(hash, medium) "{'type':'BlockRemoved','block_hashes':[" hash "],'medium':'" medium "'}"
#define WIDE "1111111111111111111"

// As vLLM tells them: what differs is the hash, and now and then something else.
TEST(removals_in_a_row_are_each_their_own)
{
    static const char batch[] =
        "[1.5,[" GONE(WIDE "1", "GPU") "," GONE("-" WIDE, "GPU") "," GONE("-" WIDE, "CPU") "," //
        GONE(WIDE "2", "CPU") "," GONE(WIDE "3", "CPU") "," GONE("7", "CPU") ","               //
        GONE(WIDE "4,9", "CPU") "," GONE(WIDE "5", "CPU") "],0]";
    CHECK_STR(notices_of(pack_json(batch)),
              "removed 9a3298afb5ac71c7; removed f0948a54d43b8e39; "
              "removed f0948a54d43b8e39 host; removed 9a3298afb5ac71c8 host; "
              "removed 9a3298afb5ac71c9 host; removed 7 host; removed 9a3298afb5ac71ca 9 host; "
              "removed 9a3298afb5ac71cb host; rank 0");
    // One that is cut off is not taken for the one before.
    struct slice whole = pack_json("[1.5,[" GONE(WIDE "1", "GPU") "]]");
    CHECK_STR(notices_of(whole), "removed 9a3298afb5ac71c7; rank -1");
    CHECK_STR(notices_of(slice_of(whole.bytes, whole.size - 1)),
              "input does not follow its format");
}

TEST(tokens_that_are_not_ids_are_left_out)
{
    static const char *const cases[] = {"[1,[1,2]]",    "[[1,2],[2,3]]", "['a']", "[1,-1]",
                                        "[4294967296]", "[1,null]",      "[1.5]"};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char event[128];
        snprintf(event, sizeof(event), "['BlockStored',[1],null,%s,1,null,'CPU']", cases[i]);
        CHECK_STR(notice_of(event), "stored 1 size=1 tokens host pairs");
    }
    CHECK_STR(notice_of("['BlockStored',[1],null,[4294967295,0],1,null,'CPU']"),
              "stored 1 size=1 tokens=4294967295,0 host");
    CHECK_STR(notice_of("['BlockStored',[1],null,null,0,null,'CPU']"),
              "stored 1 size=0 tokens host");
}

TEST(media_are_tiers)
{
    static const struct {
        const char *medium;
        const char *tier;
    } cases[] = {
        {"null", ""},
        {"''", ""},
        {"'GPU'", ""},
        {"'gpu'", ""},
        {"'CPU'", " host"},
        {"'cpu'", " host"},
        {"'CPU_PINNED'", " host"},
        {"'STORAGE'", " disk"},
        {"'DISK'", " disk"},
        {"'EXTERNAL'", " disk"},
        {"'what'", " disk"},
        {"'GPUX'", " disk"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char event[128];
        char expected[128];
        snprintf(event, sizeof(event), "['BlockRemoved',[1],%s]", cases[i].medium);
        snprintf(expected, sizeof(expected), "removed 1%s", cases[i].tier);
        CHECK_STR(notice_of(event), expected);
    }
}

TEST(only_groups_with_full_attention_decide)
{
    static const struct {
        const char *kind;
        bool decides;
    } cases[] = {
        {"null", true},
        {"'full_attention'", true},
        {"'mla_attention'", true},
        {"'sink_full_attention'", true},
        {"'sliding_window'", false},
        {"'sliding_window_mla'", false},
        {"'mamba'", false},
        {"'chunked_local_attention'", false},
        {"'encoder_only_attention'", false},
        {"'cross_attention'", false},
        {"'unknown'", false},
        {"'of_next_year'", false},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char event[128];
        snprintf(event, sizeof(event),
                 "{'type':'BlockStored','block_hashes':[],"
                 "'kv_cache_spec_kind':%s}",
                 cases[i].kind);
        CHECK_STR(notice_of(event),
                  cases[i].decides ? "stored size=0 tokens" : "stored size=0 tokens sparse");
    }
}

TEST(adapters_have_names_and_before_that_numbers)
{
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,12]"),
              "stored 1 size=1 tokens=7 adapter=12");
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,12,'GPU','name']"),
              "stored 1 size=1 tokens=7 adapter=name");
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,18446744073709551615,'GPU',null]"),
              "stored 1 size=1 tokens=7 adapter=18446744073709551615");
    CHECK_STR(notice_of("['BlockStored',[1],null,[7],1,0,'GPU','']"), "stored 1 size=1 tokens=7");
}

TEST(copies_left_are_read_for_each_hash)
{
    static const struct {
        const char *counts;
        const char *left;
    } cases[] = {
        {"[1,0]", " left=1,0"},
        {"[null,2]", " left=4294967295,2"},
        {"[2]", ""},     // of which one?
        {"[1,2,3]", ""}, // likewise
        {"7", ""},
        {"{'a':[1,2]}", ""},
        {"null", ""},
        {"[[1],{'a':1}]", " left=4294967295,4294967295"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char event[128];
        char expected[128];
        snprintf(event, sizeof(event),
                 "{'type':'BlockRemoved','block_hashes':[1,2],"
                 "'remaining_copy_counts':%s,'medium':'CPU'}",
                 cases[i].counts);
        snprintf(expected, sizeof(expected), "removed 1 2%s host", cases[i].left);
        CHECK_STR(notice_of(event), expected);
    }
}

TEST(keys_that_are_not_in_the_seed_are_extras_of_their_block)
{
    CHECK_STR(notice_of("{'type':'BlockStored','block_hashes':[1,2,3],"
                        "'extra_keys':[['a',['img',3],'s'],['a'],['a',['img',-3]]],"
                        "'lora_name':'a'}"),
              "stored 1 2 3 size=0 tokens adapter=a salt=s extra 0:10 extra 2:10");
    CHECK_STR(
        notice_of("{'type':'BlockStored','block_hashes':[1,2],'mm_keys':[[],[{'hash':'ab'}]]}"),
        "stored 1 2 size=0 tokens extra 1:13");
}

TEST(an_event_that_makes_no_sense_costs_no_other)
{
    static const char *const cases[] = {
        "null",
        "7",
        "'BlockStored'",
        "[]",
        "{}",
        "[7,[1]]",
        "[['BlockStored'],[1]]",
        "{'block_hashes':[1]}",
        "{'type':null,'block_hashes':[1]}",
        "['BlockStored']",
        "['BlockRemoved']",
        "{'type':'BlockRemoved','medium':'GPU'}",
        "['BlockRemoved',null]",
        "['BlockRemoved',7]",
        "['BlockRemoved',[1,null]]",
        "['BlockRemoved',[1,[2,[3]]]]",
        "['BlockRemoved',[1.5]]",
        "['BlockRemoved',[1],7]",
        "['BlockRemoved',[1],['GPU',['x']]]",
        "['BlockRemoved',[1],'GPU',-1]",
        "['BlockRemoved',[1],'GPU','0']",
        "['BlockStored',[1],[1],[7],1]",
        "['BlockStored',[1],null,7,1]",
        "['BlockStored',[1],null,[7],-1]",
        "['BlockStored',[1],null,[7],4294967296]",
        "['BlockStored',[1],null,[7],null]",
        "['BlockStored',[1],null,[7],1,'a']",
        "['BlockStored',[1],null,[7],1,-1]",
        "['BlockStored',[1],null,[7],1,null,'GPU',7]",
        "['BlockStored',[1],null,[7],1,null,'GPU',null,7]",
        "{'type':'BlockStored','block_hashes':[1],'medium':{'a':[1,{}]}}",
        "{'type':'BlockStored','block_hashes':[1],'mm_keys':7}",
        "{'type':'BlockStored','block_hashes':[1],'kv_cache_spec_kind':7}",
        "{'type':'BlockStored','block_hashes':[1],'locality':7}",
        "{'type':'BlockStored','block_hashes':[1],'cache_salt':7}",
        "{'block_hashes':{},'type':'BlockStored'}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char batch[512];
        snprintf(batch, sizeof(batch), "[1.5,[['BlockRemoved',[1]],%s,['BlockRemoved',[2]]],5]",
                 cases[i]);
        CHECK_STR(notices_of(pack_json(batch)), "removed 1; malformed; removed 2; rank 5");
    }
}

TEST(an_event_of_an_unknown_kind_is_unknown_whatever_its_fields)
{
    static const char *const cases[] = {
        "['BlockMoved']",
        "['BlockMoved',[1,{'a':1}],{'medium':7}]",
        "{'type':'BlockMoved','block_hashes':7,'medium':[1]}",
        "{'block_hashes':7,'type':'blockstored'}",
        "{'type':''}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_STR(notice_of(cases[i]), "unknown");
    }
}

TEST(batches_may_be_maps_and_have_no_rank)
{
    static const struct {
        const char *batch;
        const char *notices;
    } cases[] = {
        {"{'ts':1.5,'events':[['BlockRemoved',[1]]],'data_parallel_rank':3}", "removed 1; rank 3"},
        {"{'attn_dp_rank':4,'x':{'y':[1]},'events':[['BlockRemoved',[1]]]}", "removed 1; rank 4"},
        {"{'events':[],'events':[['BlockRemoved',[1]]],'z':0}", "rank -1"},
        {"[1.5,[]]", "rank -1"},
        {"[1.5,[],null]", "rank -1"},
        {"[1.5,[],-3]", "rank -1"},
        {"[1.5,[],[7]]", "rank -1"},
        {"[1.5,[],7,[8,{}],9]", "rank 7"},
        {"[{'a':[1]},[['AllBlocksCleared']],1]", "cleared; rank 1"},
        {"[1.5]", "input does not follow its format"},
        {"[]", "input does not follow its format"},
        {"{}", "input does not follow its format"},
        {"{'ts':1.5}", "input does not follow its format"},
        {"{'events':{}}", "input does not follow its format"},
        {"[1.5,7,0]", "input does not follow its format"},
        {"[1.5,null]", "input does not follow its format"},
        {"7", "input does not follow its format"},
        {"'events'", "input does not follow its format"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_STR(notices_of(pack_json(cases[i].batch)), cases[i].notices);
    }
}

TEST(before_a_batch_and_behind_it_there_is_nothing)
{
    struct kv_reader *reader = kv_reader_create();
    struct kv_notice notice = {.group = 42};
    CHECK(kv_reader_next(reader, &notice) == STATUS_CLOSED);
    CHECK_EQ(kv_reader_rank(reader), -1);
    CHECK(kv_reader_begin(reader, pack_json("[1.5,[],6]")) == STATUS_OK);
    CHECK(kv_reader_next(reader, &notice) == STATUS_CLOSED);
    CHECK(kv_reader_next(reader, &notice) == STATUS_CLOSED);
    CHECK_EQ(kv_reader_rank(reader), 6);
    CHECK(kv_reader_begin(reader, slice_of(NULL, 0)) == STATUS_MALFORMED);
    CHECK(kv_reader_next(reader, &notice) == STATUS_MALFORMED);
    CHECK_EQ(kv_reader_rank(reader), -1);
    static const uint8_t one = 0xc0;
    CHECK(kv_reader_begin(reader, slice_of(&one, kv_payload_max + 1)) == STATUS_TOO_LARGE);
    CHECK_EQ(notice.group, 42);
    kv_reader_destroy(&reader);
    CHECK(reader == NULL);
    kv_reader_destroy(&reader);
}

// An event of so many hashes and tokens between two others.
static const char *notices_of_size(uint32_t hashes, uint32_t tokens)
{
    static char summary[256];
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    struct kv_notice notice;
    struct text out = text_over(summary, sizeof(summary) - 1);

    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 2);
    msgpack_pack_nil(&packer);
    msgpack_pack_array(&packer, 2);
    msgpack_pack_array(&packer, 5);
    msgpack_pack_str_with_body(&packer, "BlockStored", 11);
    msgpack_pack_array(&packer, hashes);
    for (uint32_t i = 0; i < hashes; i++) {
        msgpack_pack_uint32(&packer, i);
    }
    msgpack_pack_nil(&packer);
    msgpack_pack_array(&packer, tokens);
    for (uint32_t i = 0; i < tokens; i++) {
        msgpack_pack_uint32(&packer, i);
    }
    msgpack_pack_uint32(&packer, 16);
    msgpack_pack_array(&packer, 1);
    msgpack_pack_str_with_body(&packer, "AllBlocksCleared", 16);

    ASSERT(kv_reader_begin(shared_reader(), slice_of(buffer.data, buffer.size)) == STATUS_OK);
    while (kv_reader_next(shared_reader(), &notice) == STATUS_OK) {
        bool is_right =
            notice.kind != KV_NOTICE_STORED ||
            (notice.hashes[hashes - 1] == hashes - 1 && notice.tokens[tokens - 1] == tokens - 1);
        text_add_format(&out, "%d %u %u%s; ", notice.kind, notice.hash_count, notice.token_count,
                        is_right ? "" : " wrong");
    }
    summary[out.size] = '\0';
    msgpack_sbuffer_destroy(&buffer);
    return summary;
}

enum { prefetched_blocks = 40, prefetched_tokens = prefetched_blocks * 16 };

// Hashes that were prefetched before their notice.
struct prefetched {
    uint32_t count;
    uint64_t hashes[prefetched_blocks];
};

static void keep_prefetched(void *owner, const uint64_t *hashes, uint32_t count)
{
    struct prefetched *prefetched = owner;
    ASSERT(prefetched->count + count <= prefetched_blocks);
    memcpy(prefetched->hashes + prefetched->count, hashes, count * sizeof(*hashes));
    prefetched->count += count;
}

// A batch of one event, in space that the next call uses again.
static struct slice batch_of(const struct kv_event *event)
{
    static uint8_t inner_space[1 << 13];
    static uint8_t outer_space[1 << 13];
    struct text inner = text_over(inner_space, sizeof(inner_space));
    struct text outer = text_over(outer_space, sizeof(outer_space));
    struct kv_hash_form form = {.format = kv_event_format_at(0)};
    kv_event_write(form, event, &inner);
    kv_batch_write(form.format, &(struct kv_batch){.events = text_slice(&inner), .event_count = 1},
                   &outer);
    ASSERT(!inner.overflow && !outer.overflow);
    return text_slice(&outer);
}

TEST(hashes_of_a_store_are_prefetched_in_their_order_in_the_batch_that_asks_for_it)
{
    struct kv_reader *reader = shared_reader();
    struct kv_notice notice;
    uint64_t hashes[prefetched_blocks];
    uint32_t tokens[prefetched_tokens];
    for (uint32_t i = 0; i < prefetched_blocks; i++) {
        hashes[i] = rng_mix(i);
    }
    for (uint32_t i = 0; i < prefetched_tokens; i++) {
        tokens[i] = i * 37;
    }
    struct kv_event event = {.kind = KV_EVENT_STORED,
                             .hashes = hashes,
                             .hash_count = prefetched_blocks,
                             .tokens = tokens,
                             .token_count = prefetched_tokens,
                             .block_tokens = 16};
    for (uint32_t batch = 0; batch < 2; batch++) {
        struct prefetched prefetched = {0};
        CHECK_EQ(kv_reader_begin(reader, batch_of(&event)), STATUS_OK);
        if (batch == 0) {
            kv_reader_prefetch(reader, keep_prefetched, &prefetched);
        }
        CHECK_EQ(kv_reader_next(reader, &notice), STATUS_OK);
        CHECK_EQ(notice.token_count, prefetched_tokens);
        CHECK(memcmp(notice.tokens, tokens, sizeof(tokens)) == 0);
        CHECK_EQ(prefetched.count, batch == 0 ? prefetched_blocks : 0);
        CHECK(memcmp(prefetched.hashes, hashes, prefetched.count * sizeof(hashes[0])) == 0);
    }
}

TEST(an_event_beyond_the_limits_is_malformed_and_costs_no_other)
{
    CHECK_STR(notices_of_size(kv_hash_max, kv_token_max), "0 65536 1048576; 2 0 0; ");
    CHECK_STR(notices_of_size(kv_hash_max + 1, 16), "4 0 0; 2 0 0; ");
    CHECK_STR(notices_of_size(1, kv_token_max + 1), "4 0 0; 2 0 0; ");
}

// Random events.

enum { hash_max = 80, block_max = 20 };

struct random_event {
    struct kv_event event;
    uint64_t hashes[hash_max];
    uint32_t tokens[hash_max * block_max];
};

static const char *pick(struct rng *rng, const char *const *names, uint32_t count)
{
    return names[rng_below(rng, count)];
}

static void make_event(struct rng *rng, struct random_event *out)
{
    static const char *const media[] = {"GPU", "CPU", "STORAGE", NULL};
    static const char *const names[] = {NULL, NULL, "adapter", "another one"};
    static const char *const salts[] = {NULL, NULL, "salt", "a salt of more than thirty-one bytes"};
    static const char *const kinds[] = {NULL, "full_attention", "mamba", "mla_attention"};
    static const char *const localities[] = {NULL, "LOCAL", "REMOTE"};
    struct kv_event *event = &out->event;

    *event = (struct kv_event){
        .kind = (enum kv_event_kind)rng_below(rng, 3),
        .hashes = out->hashes,
        .hash_count = rng_below(rng, rng_below(rng, 4) == 0 ? hash_max : 4),
        .has_parent = rng_below(rng, 2) == 0,
        .has_group = rng_below(rng, 2) == 0,
        .parent = rng_next(rng) >> rng_below(rng, 64),
        .tokens = out->tokens,
        .block_tokens = rng_below(rng, block_max),
        .group = rng_below(rng, 300),
        .window = rng_below(rng, 2) * 4096,
        .lora_id = rng_below(rng, 2) * rng_below(rng, 1000),
        .lora_name = pick(rng, names, ARRAY_COUNT(names)),
        .salt = pick(rng, salts, ARRAY_COUNT(salts)),
        .medium = pick(rng, media, ARRAY_COUNT(media)),
        .spec_kind = pick(rng, kinds, ARRAY_COUNT(kinds)),
        .locality = pick(rng, localities, ARRAY_COUNT(localities)),
    };
    event->token_count = event->hash_count * event->block_tokens;
    for (uint32_t i = 0; i < event->hash_count; i++) {
        out->hashes[i] = rng_next(rng) >> rng_below(rng, 64);
    }
    for (uint32_t i = 0; i < event->token_count; i++) {
        out->tokens[i] = rng_below(rng, 150000) >> rng_below(rng, 18);
    }
}

static struct slice or_empty(const char *text)
{
    return slice_str(text != NULL ? text : "");
}

static enum prefix_tier tier_of(const char *medium)
{
    if (medium == NULL || strcmp(medium, "GPU") == 0) {
        return PREFIX_GPU;
    }
    return strcmp(medium, "CPU") == 0 ? PREFIX_HOST : PREFIX_DISK;
}

// The event as a format can write it: without the fields that the release lacks.
static struct kv_event as_written(const struct kv_event *event,
                                  const struct kv_event_format *format)
{
    struct kv_event left = *event;
    bool is_stored = event->kind == KV_EVENT_STORED;
    uint32_t fields = is_stored ? format->stored_fields : format->removed_fields;
    bool has_keys = is_stored && fields > 8 && event->token_count > 0 && event->hash_count > 0 &&
                    !event->has_parent;

    left.medium = fields > (is_stored ? 6 : 2) ? event->medium : NULL;
    left.lora_name = is_stored && fields > 7 ? event->lora_name : NULL;
    left.salt = has_keys || (is_stored && format->salts_by_map) ? event->salt : NULL;
    left.has_group = event->has_group && fields > (is_stored ? 9 : 3);
    left.spec_kind = is_stored && fields > 10 ? event->spec_kind : NULL;
    left.locality = fields > (is_stored ? 12 : 4) ? event->locality : NULL;
    return left;
}

static bool is_said(const struct kv_notice *notice, const struct kv_event *event)
{
    static const enum kv_notice_kind kinds[] = {
        [KV_EVENT_STORED] = KV_NOTICE_STORED,
        [KV_EVENT_REMOVED] = KV_NOTICE_REMOVED,
        [KV_EVENT_CLEARED] = KV_NOTICE_CLEARED,
    };
    char number[16];
    bool is_stored = event->kind == KV_EVENT_STORED;

    if (notice->kind != kinds[event->kind] || event->kind == KV_EVENT_CLEARED) {
        return notice->kind == kinds[event->kind];
    }
    snprintf(number, sizeof(number), "%u", event->lora_id);
    const char *adapter = event->lora_name;
    if (adapter == NULL && is_stored && event->lora_id > 0) {
        adapter = number;
    }
    bool decides = event->spec_kind == NULL || strcmp(event->spec_kind, "mamba") != 0;
    bool is_remote = event->locality != NULL && strcmp(event->locality, "REMOTE") == 0;
    uint32_t token_count = is_stored ? event->token_count : 0;
    return notice->hash_count == event->hash_count &&
           memcmp(notice->hashes, event->hashes, event->hash_count * sizeof(uint64_t)) == 0 &&
           notice->has_parent == (is_stored && event->has_parent) &&
           (!notice->has_parent || notice->parent == event->parent) &&
           notice->block_tokens == (is_stored ? event->block_tokens : 0) &&
           notice->token_count == token_count &&
           (token_count == 0 ||
            memcmp(notice->tokens, event->tokens, token_count * sizeof(uint32_t)) == 0) &&
           notice->has_group == event->has_group &&
           (!notice->has_group || notice->group == event->group) && notice->is_plain &&
           notice->decides == decides && notice->is_remote == is_remote &&
           notice->tier == tier_of(event->medium) && notice->copies_left == NULL &&
           slice_equal(notice->adapter, or_empty(adapter)) &&
           slice_equal(notice->salt, or_empty(event->salt)) && notice->extra_count == 0;
}

enum { batch_max = 5, batch_size_max = 1 << 17 };

static void check_random_batch(struct rng *rng, struct kv_hash_form form)
{
    static struct random_event events[batch_max];
    static uint8_t inner_space[batch_size_max];
    static uint8_t outer_space[batch_size_max];
    struct text inner = text_over(inner_space, sizeof(inner_space));
    struct text outer = text_over(outer_space, sizeof(outer_space));
    struct kv_notice notice;
    uint32_t count = rng_below(rng, batch_max + 1);
    int32_t rank = (int32_t)rng_below(rng, 10) - 1;

    for (uint32_t i = 0; i < count; i++) {
        make_event(rng, &events[i]);
        kv_event_write(form, &events[i].event, &inner);
    }
    kv_batch_write(
        form.format,
        &(struct kv_batch){
            .seconds = 1.5, .events = text_slice(&inner), .event_count = count, .rank = rank},
        &outer);
    CHECK(!inner.overflow && !outer.overflow);
    CHECK(kv_reader_begin(shared_reader(), text_slice(&outer)) == STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        struct kv_event expected = as_written(&events[i].event, form.format);
        CHECK(kv_reader_next(shared_reader(), &notice) == STATUS_OK);
        CHECK(is_said(&notice, &expected));
    }
    CHECK(kv_reader_next(shared_reader(), &notice) == STATUS_CLOSED);
    CHECK_EQ(kv_reader_rank(shared_reader()), form.format->has_rank ? rank : -1);
}

TEST(a_notice_has_the_fields_that_any_format_wrote)
{
    struct rng rng = {.state = 6};
    uint32_t format = 0;
    for (; kv_event_format_at(format) != NULL; format++) {
        for (uint32_t round = 0; round < 500; round++) {
            check_random_batch(&rng, (struct kv_hash_form){.format = kv_event_format_at(format),
                                                           .is_digest = rng_below(&rng, 4) == 0});
        }
    }
    CHECK_EQ(format, 11);
}
