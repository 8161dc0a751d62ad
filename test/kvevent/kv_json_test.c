// SPDX-License-Identifier: Apache-2.0
//
// What documents say, written down line by line.  Documents have ' for ", to be read more easily.

#include "kvevent/kv_json.h"

#include "base/text.h"
#include "test.h"

#include <stdlib.h>

static struct kv_json *reader;

static void add_notice(const struct kv_notice *notice, struct text *out)
{
    static const char *const kinds[] = {"stored", "removed", "cleared", "unknown", "malformed"};
    static const char *const tiers[] = {"gpu", "host", "disk"};

    text_add_str(out, kinds[notice->kind]);
    if (notice->kind == KV_NOTICE_STORED || notice->kind == KV_NOTICE_REMOVED) {
        text_add_format(out, " %s", tiers[notice->tier]);
        for (uint32_t i = 0; i < notice->hash_count; i++) {
            text_add_format(out, "%s%lx", i == 0 ? " " : ",", (unsigned long)notice->hashes[i]);
        }
    }
    if (notice->has_parent) {
        text_add_format(out, " behind %lx", (unsigned long)notice->parent);
    }
    for (uint32_t i = 0; i < notice->token_count; i++) {
        text_add_format(out, "%s%u", i == 0 ? " tokens " : ",", notice->tokens[i]);
    }
    if (notice->block_tokens > 0) {
        text_add_format(out, " by %u", notice->block_tokens);
    }
    if (notice->adapter.size > 0) {
        text_add_str(out, " adapter ");
        text_add(out, notice->adapter);
    }
    if (notice->salt.size > 0) {
        text_add_str(out, " salt ");
        text_add(out, notice->salt);
    }
    if (notice->has_group) {
        text_add_format(out, " group %u%s", notice->group, notice->decides ? "" : " which is moot");
    }
    text_add_str(out, notice->kind == KV_NOTICE_STORED && !notice->is_plain ? " opaque" : "");
    text_add_str(out, notice->is_remote ? " remote" : "");
    struct kv_json_fault fault = kv_json_fault(reader);
    if (fault.what != NULL) {
        text_add_format(out, " at %ld: %s", (long)fault.event, fault.what);
    }
    text_add_str(out, "\n");
}

// In memory of its exact size, for sanitizers; good until the next.
static struct slice document_of(const char *quoted)
{
    static char *space;
    size_t size = strlen(quoted);

    free(space);
    space = malloc(size > 0 ? size : 1);
    ASSERT(space != NULL);
    for (size_t i = 0; i < size; i++) {
        space[i] = quoted[i];
        if (quoted[i] == '\'') {
            space[i] = '"';
        }
    }
    return slice_of(space, size);
}

static enum status begin(const char *quoted, const struct kv_json_owner *owner)
{
    kv_json_destroy(&reader);
    reader = kv_json_create();
    ASSERT(reader != NULL);
    return kv_json_begin(reader, document_of(quoted), owner);
}

// Every notice on a line; the fault alone of what is no document.
static const char *read_for(const char *quoted, const struct kv_json_owner *owner)
{
    static char space[16384];
    struct text out = text_over(space, sizeof(space) - 1);
    struct kv_notice notice;
    enum status status = begin(quoted, owner);

    if (status != STATUS_OK) {
        text_add_format(&out, "no: %s", kv_json_fault(reader).what);
    }
    while ((status = kv_json_next(reader, &notice)) == STATUS_OK) {
        add_notice(&notice, &out);
    }
    ASSERT(status == STATUS_CLOSED && !out.overflow);
    space[out.size] = '\0';
    return space;
}

static const char *read_all(const char *document)
{
    return read_for(document, NULL);
}

TEST(events_are_told_with_the_names_that_vllm_has_for_their_parts)
{
    CHECK_STR(read_all("{'backend':'http://a:1','events':["
                       "{'type':'BlockStored','block_hashes':[1,2],'parent_block_hash':null,"
                       "'token_ids':[5,6,7,8],'block_size':2,'lora_id':null,'medium':'GPU',"
                       "'lora_name':null,'extra_keys':[null,null],'group_idx':0,"
                       "'kv_cache_spec_kind':'full_attention'},"
                       "{'type':'BlockRemoved','block_hashes':[1],'medium':'cpu'},"
                       "{'type':'AllBlocksCleared'}]}"),
              "stored gpu 1,2 tokens 5,6,7,8 by 2 group 0\nremoved host 1\ncleared\n");
}

TEST(short_words_for_the_kinds_do_as_well)
{
    CHECK_STR(read_all("{'events':[{'block_size':1,'token_ids':[9],'block_hashes':['ab'],"
                       "'parent_block_hash':'0xFE','type':'stored'},"
                       "{'type':'removed','block_hashes':[]},{'type':'cleared'}]}"),
              "stored gpu ab behind fe tokens 9 by 1\nremoved gpu\ncleared\n");
}

// What no double can hold, and both spellings of one hash.
TEST(hashes_are_64_bits_and_every_one_counts)
{
    CHECK_STR(read_all("[{'type':'removed','block_hashes':[9007199254740993,"
                       "18446744073709551615,-1,-9223372036854775808,9223372036854775808,-0,"
                       "'00ffeeddccbbaa99887766554433221100']}]"),
              "removed gpu 20000000000001,ffffffffffffffff,ffffffffffffffff,8000000000000000,"
              "8000000000000000,0,7766554433221100\n");
}

TEST(what_is_no_hash_spoils_its_event_alone)
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

TEST(what_tells_blocks_apart_is_told)
{
    CHECK_STR(read_all("[{'type':'stored','block_hashes':[1],'token_ids':[3],"
                       "'block_size':1,'lora_name':'l\\u00e4','lora_id':4,"
                       "'cache_salt':'s\\n','extra_keys':[null]}]"),
              "stored gpu 1 tokens 3 by 1 adapter l\xc3\xa4 salt s\n\n");
    CHECK_STR(read_all("[{'type':'stored','block_hashes':[1],'token_ids':[3],"
                       "'block_size':1,'lora_name':'l','cache_salt':'s',"
                       "'extra_keys':[['l','s']]}]"),
              "stored gpu 1 tokens 3 by 1 adapter l salt s\n");
}

// An image, an adapter without a name, ids that are pairs: tokens alone do not say what the block is.
TEST(blocks_that_their_tokens_do_not_describe_are_opaque)
{
    static const char *const parts[] = {"'extra_keys':[['image']]",
                                        "'extra_keys':[[[1,2]]]",
                                        "'extra_keys':'all'",
                                        "'extra_keys':[1]",
                                        "'lora_id':4",
                                        "'token_ids':[[1,2]]",
                                        "'token_ids':['digest']"};
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        char document[256];
        snprintf(document, sizeof(document),
                 "[{'type':'stored','block_hashes':[1],'token_ids':[3],'block_size':1,%s}]",
                 parts[i]);
        CHECK_STR(read_all(document), "stored gpu 1 by 1 opaque\n");
    }
}

TEST(media_are_tiers)
{
    static const struct {
        const char *medium;
        const char *tier;
    } cases[] = {{"null", "gpu"},        {"''", "gpu"},      {"'gpu'", "gpu"},
                 {"'CPU'", "host"},      {"'cpu'", "host"},  {"'CPU_PINNED'", "host"},
                 {"'STORAGE'", "disk"},  {"'DISK'", "disk"}, {"'EXTERNAL'", "disk"},
                 {"'moon rock'", "disk"}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char document[128];
        char line[64];
        snprintf(document, sizeof(document), "[{'type':'removed','block_hashes':[1],'medium':%s}]",
                 cases[i].medium);
        snprintf(line, sizeof(line), "removed %s 1\n", cases[i].tier);
        CHECK_STR(read_all(document), line);
    }
}

TEST(a_placeholder_has_neither_size_nor_tokens)
{
    CHECK_STR(read_all("[{'type':'stored','block_hashes':[1],'token_ids':[],"
                       "'block_size':0,'medium':'CPU','locality':'REMOTE'},"
                       "{'type':'stored','block_hashes':[2],'medium':'CPU'}]"),
              "stored host 1 remote\nstored host 2\n");
}

// A window keeps some of its blocks, so tokens and hashes need not agree; elsewhere they must.
TEST(tokens_fill_the_blocks_where_all_blocks_are_kept)
{
    CHECK_STR(read_all("[{'type':'stored','block_hashes':[1],'token_ids':[3,4,5],"
                       "'block_size':1,'group_idx':1,'kv_cache_spec_kind':'sliding_window'},"
                       "{'type':'stored','block_hashes':[1],'token_ids':[3,4,5],"
                       "'block_size':1}]"),
              "stored gpu 1 tokens 3,4,5 by 1 group 1 which is moot\n"
              "malformed at 1: token_ids are not block_size for each of block_hashes\n");
}

TEST(events_that_make_no_sense_say_where_and_why)
{
    CHECK_STR(read_all("[7,{},{'type':1},{'type':'Stored'},{'type':'stored'},"
                       "{'type':'stored','block_hashes':[],'token_ids':{}},"
                       "{'type':'stored','block_hashes':[1],'token_ids':[1.5]},"
                       "{'type':'stored','block_hashes':[1],'token_ids':[4294967296]},"
                       "{'type':'stored','block_hashes':[1],'token_ids':[1]},"
                       "{'type':'stored','block_hashes':[1],'parent_block_hash':[]},"
                       "{'type':'stored','block_hashes':[1],'lora_name':7},"
                       "{'type':'stored','block_hashes':[1],'cache_salt':'\\ud800'},"
                       "{'type':'removed','block_hashes':[1],'medium':7},"
                       "{'type':'removed','block_hashes':[1],'group_idx':'0'}]"),
              "malformed at 0: it is not an object\n"
              "malformed at 1: it has no type\n"
              "malformed at 2: it has no type\n"
              "unknown at 3: its type is not known\n"
              "malformed at 4: block_hashes is not a list\n"
              "malformed at 5: token_ids is not a list\n"
              "malformed at 6: token_ids has a number that is no id\n"
              "malformed at 7: token_ids has a number that is no id\n"
              "malformed at 8: block_size is not a number\n"
              "malformed at 9: the parent's hash is neither an integer of 64 bits nor hexadecimal\n"
              "malformed at 10: lora_name is not a name\n"
              "malformed at 11: cache_salt is not a name\n"
              "malformed at 12: medium is not a name\n"
              "malformed at 13: group_idx is not a number\n");
}

TEST(what_is_no_document_of_events_says_why)
{
    CHECK_STR(read_all(""), "no: it is not JSON");
    CHECK_STR(read_all("[{'type':'cleared'}"), "no: it is not JSON");
    CHECK_STR(read_all("[] []"), "no: it is not JSON");
    CHECK_STR(read_all("7"), "no: it is neither an object nor a list");
    CHECK_STR(read_all("{}"), "no: events is missing or not a list");
    CHECK_STR(read_all("{'events':{}}"), "no: events is missing or not a list");
    CHECK_STR(read_all("{'events':[],'type':'other'}"), "no: type is not cache_event");
    CHECK_STR(read_all("{'events':[],'version':2}"), "no: version is not 1");
    CHECK_STR(read_all("{'events':[],'backend':-1}"), "no: backend is neither a URL nor an id");
    CHECK_STR(read_all("{'events':[],'backend':''}"), "no: backend is not a URL");
    CHECK_STR(read_all("{'events':[],'rank':'1'}"), "no: rank is not a number");
    CHECK(begin("7", NULL) == STATUS_MALFORMED);
    CHECK_EQ(kv_json_fault(reader).event, -1);
}

TEST(a_document_says_whom_it_is_about)
{
    CHECK_STR(read_all("{'events':[],'backend':'http:\\/\\/a:1','rank':3}"), "");
    struct kv_json_target target = kv_json_target(reader);
    CHECK(slice_is(target.url, "http://a:1") && !target.has_id && target.has_rank);
    CHECK_EQ(target.rank, 3);
    CHECK_STR(read_all("{'events':[],'backend':18446744073709551615}"), "");
    target = kv_json_target(reader);
    CHECK(target.has_id && target.id == UINT64_MAX && target.url.size == 0 && !target.has_rank);
    CHECK_STR(read_all("[]"), "");
    target = kv_json_target(reader);
    CHECK(!target.has_id && target.url.size == 0 && !target.has_rank);
}

static const char ranvier[] =
    "{'type':'cache_event','version':1,'events':["
    "{'event':'loaded','prefix_hash':'f6e5','prefix_token_count':2,'timestamp_ms':1},"
    "{'event':'evicted','prefix_hash':'a1b2','timestamp_ms':2,'backend_id':7},"
    "{'event':'lost','prefix_hash':'a1b2'},{'event':'evicted'}]}";

// The hash is none of ours: what went cannot be told from the rest.
TEST(an_eviction_by_a_foreign_hash_clears_and_a_load_says_nothing)
{
    CHECK_STR(read_all(ranvier), "unknown\ncleared\nunknown at 2: its type is not known\n"
                                 "malformed at 3: prefix_hash is not hexadecimal\n");
}

TEST(an_event_may_say_itself_whom_it_is_about)
{
    struct kv_notice notice;
    uint64_t id = 0;
    CHECK_STR(read_for(ranvier, &(struct kv_json_owner){.backend_id = 8}),
              "unknown\nunknown at 2: its type is not known\n"
              "malformed at 3: prefix_hash is not hexadecimal\n");
    CHECK(begin(ranvier, &(struct kv_json_owner){.backend_id = 7}) == STATUS_OK);
    CHECK(!kv_json_event_backend(reader, &id));
    CHECK(kv_json_next(reader, &notice) == STATUS_OK && notice.kind == KV_NOTICE_UNKNOWN);
    CHECK(!kv_json_event_backend(reader, &id));
    CHECK(kv_json_next(reader, &notice) == STATUS_OK && notice.kind == KV_NOTICE_CLEARED);
    CHECK(kv_json_event_backend(reader, &id));
    CHECK_EQ(id, 7);
}

TEST(what_tensorrt_llm_stores_is_one_chain)
{
    CHECK_STR(
        read_all("[{'event_id':0,'data':{'type':'created','num_blocks_per_cache_level':[9,0]},"
                 "'window_size':256},"
                 "{'event_id':1,'window_size':256,'data':{'type':'stored','parent_hash':null,"
                 "'blocks':[{'type':'stored_block','block_hash':4203099703668305365,'tokens':["
                 "{'type':'unique_token','token_id':1,'token_extra_id':0},"
                 "{'type':'unique_token','token_id':2,'token_extra_id':0}],"
                 "'cache_level':0,'priority':35,'mm_keys':[]},"
                 "{'type':'stored_block','block_hash':-2,'tokens':["
                 "{'type':'unique_token','token_id':3,'token_extra_id':0},"
                 "{'type':'unique_token','token_id':4,'token_extra_id':0}],"
                 "'cache_level':0,'priority':35,'mm_keys':[]}]}}]"),
        "stored gpu 3a5468e958b2edd5,fffffffffffffffe tokens 1,2,3,4 by 2 group 256\n");
    struct kv_json_ids ids = kv_json_ids(reader);
    CHECK(ids.is_told && !ids.is_broken);
    CHECK_EQ(ids.first, 0);
    CHECK_EQ(ids.last, 1);
}

// The last block of a prompt is not full, and an image is in none of the ids.
TEST(blocks_that_differ_are_notices_of_their_own_behind_each_other)
{
    CHECK_STR(
        read_all("[{'data':{'type':'stored','parent_hash':'ab','blocks':["
                 "{'block_hash':'a0','tokens':[{'token_id':1},{'token_id':2}],'cache_salt':'s\\t'},"
                 "{'block_hash':'a1','tokens':[{'token_id':3},{'token_id':4}],'cache_salt':'u\\t'},"
                 "{'block_hash':'a2','tokens':[{'token_id':5},{'token_id':6}],'mm_keys':[{}]},"
                 "{'block_hash':'a3','tokens':[{'token_id':7},{'token_id':8}],'cache_level':1},"
                 "{'block_hash':'a4','tokens':[{'token_id':9}]}]}},"
                 "{'data':{'type':'removed','block_hashes':[]}}]"),
        "stored gpu a0,a1 behind ab tokens 1,2,3,4 by 2 salt s\t\n"
        "stored gpu a2 behind a1 by 2 opaque\n"
        "stored host a3 behind a2 tokens 7,8 by 2\n"
        "stored gpu a4 behind a3 tokens 9 by 1\n"
        "removed gpu\nremoved host\nremoved disk\n");
}

TEST(ids_that_are_not_all_of_a_token_make_its_block_opaque)
{
    CHECK_STR(
        read_all("[{'data':{'type':'stored','blocks':["
                 "{'block_hash':1,'tokens':[{'token_id':1,'token_extra_id':7}]},"
                 "{'block_hash':2,'tokens':[{'token_id':'digest'}]},"
                 "{'block_hash':3,'tokens':[{'token_id':4}],'lora_id':1},"
                 "{'block_hash':4,'tokens':[{'token_id':4}],'lora_id':1,'lora_name':'l'}]}}]"),
        "stored gpu 1,2,3 by 1 opaque\nstored gpu 4 behind 3 tokens 4 by 1 adapter l\n");
}

// It does not say from which tier.
TEST(what_tensorrt_llm_removes_is_gone_from_everywhere)
{
    CHECK_STR(read_all("[{'event_id':9,'data':{'type':'removed','block_hashes':[1,'f']}},"
                       "{'event_id':10,'data':{'type':'cleared'}},"
                       "{'event_id':11,'data':{'type':'moved'}}]"),
              "removed gpu 1,f\nremoved host 1,f\nremoved disk 1,f\ncleared\n"
              "unknown at 2: its type is not known\n");
}

#define UPDATED(level) "[{'data':{'type':'updated','block_hash':6," level "}}]"

TEST(a_block_that_moves_is_there_before_it_is_gone_here)
{
    CHECK_STR(read_all(UPDATED("'cache_level':{'type':'event_diff','old_value':0,"
                               "'new_value':1},'priority':null")),
              "stored host 6\nremoved gpu 6\n");
    CHECK_STR(read_all(UPDATED("'cache_level':{'old_value':2,'new_value':0}")),
              "stored gpu 6\nremoved disk 6\n");
    CHECK_STR(read_all(UPDATED("'cache_level':{'old_value':3,'new_value':2}")), "");
    CHECK_STR(read_all(UPDATED("'priority':{'old_value':3,'new_value':2}")), "");
    CHECK_STR(read_all(UPDATED("'cache_level':null")), "");
    CHECK_STR(read_all(UPDATED("'cache_level':1")),
              "malformed at 0: cache_level is not an object\n");
    CHECK_STR(read_all(UPDATED("'cache_level':{'old_value':2}")),
              "malformed at 0: an update lacks block_hash, old_value or new_value\n");
}

TEST(blocks_that_make_no_sense_end_their_event)
{
    static const struct {
        const char *blocks;
        const char *why;
    } cases[] = {
        {"{}", "blocks is not a list"},
        {"[7]", "a block is not an object"},
        {"[{'block_hash':1,'tokens':[]},{'block_hash':null}]",
         "block_hash is neither an integer of 64 bits nor hexadecimal"},
        {"[{'block_hash':1}]", "tokens is not a list"},
        {"[{'block_hash':1,'tokens':[7]}]", "a token is not an object"},
        {"[{'block_hash':1,'tokens':[{'token_id':-1}]}]", "token_id is a number that is no id"},
        {"[{'block_hash':1,'tokens':[],'cache_level':'x'}]", "cache_level is not a number"},
        {"[{'block_hash':1,'tokens':[],'cache_salt':1}]", "lora_name or cache_salt is not a name"},
        {"[],'parent_hash':1.5",
         "the parent's hash is neither an integer of 64 bits nor hexadecimal"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        char document[256];
        char lines[256];
        snprintf(document, sizeof(document),
                 "[{'data':{'type':'stored','blocks':%s}},{'type':'cleared'}]", cases[i].blocks);
        snprintf(lines, sizeof(lines), "malformed at 0: %s\ncleared\n", cases[i].why);
        CHECK_STR(read_all(document), lines);
    }
}

#define OF_WINDOW(window) "{'data':{'type':'removed','block_hashes':[1]},'window_size':" window "}"

TEST(the_widest_attention_decides)
{
    CHECK_STR(read_all("[" OF_WINDOW("128") "," OF_WINDOW("4096") "]"),
              "removed gpu 1 group 128 which is moot\nremoved host 1 group 128 which is moot\n"
              "removed disk 1 group 128 which is moot\n"
              "removed gpu 1 group 4096\nremoved host 1 group 4096\nremoved disk 1 group 4096\n");
}

#define OF_RANK(number, rank)                                                                      \
    "{'event_id':" #number ",'attention_dp_rank':" #rank ",'data':{'type':'cleared'}}"

TEST(ranks_that_share_a_document_read_their_own)
{
    static const char shared[] =
        "[" OF_RANK(4, 0) "," OF_RANK(7, 1) "," OF_RANK(5, 0) "," OF_RANK(9, 1) "]";
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 0}), "cleared\ncleared\n");
    struct kv_json_ids ids = kv_json_ids(reader);
    CHECK(ids.is_told && !ids.is_broken && ids.first == 4 && ids.last == 5);
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 1}), "cleared\ncleared\n");
    ids = kv_json_ids(reader);
    CHECK(ids.is_told && ids.is_broken && ids.first == 7 && ids.last == 9);
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 2}), "");
    CHECK(!kv_json_ids(reader).is_told);
    CHECK_STR(
        read_for("{'rank':2,'events':[{'type':'cleared'}]}", &(struct kv_json_owner){.rank = 1}),
        "");
    CHECK_STR(
        read_for("{'rank':2,'events':[{'type':'cleared'}]}", &(struct kv_json_owner){.rank = 2}),
        "cleared\n");
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
