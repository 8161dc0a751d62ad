// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_json.h"

#include "kvevent/kv_json_lines.h"

TEST(short_words_for_the_kinds_do_as_well)
{
    CHECK_STR(read_all("{'events':[{'block_size':1,'token_ids':[9],'block_hashes':['ab'],"
                       "'parent_block_hash':'0xFE','type':'stored'},"
                       "{'type':'removed','block_hashes':[]},{'type':'cleared'}]}"),
              "stored gpu ab behind fe tokens 9 by 1\nremoved gpu\ncleared\n");
}

TEST(a_document_without_events_is_refused_with_a_reason)
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

TEST(a_document_names_its_backend)
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

// The hash is not one of ours, so the evicted blocks are unknown.
TEST(an_eviction_by_a_foreign_hash_clears_and_a_load_says_nothing)
{
    CHECK_STR(read_all(ranvier), "unknown\ncleared\nunknown at 2: its type is not known\n"
                                 "malformed at 3: prefix_hash is not hexadecimal\n");
}

TEST(an_event_may_name_its_backend)
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

#define OF_RANK(number, rank)                                                                      \
    "{'event_id':" #number ",'attention_dp_rank':" #rank ",'data':{'type':'cleared'}}"

TEST(ranks_that_share_a_document_read_their_own)
{
    static const char shared[] =
        "[" OF_RANK(4, 0) "," OF_RANK(7, 1) "," OF_RANK(5, 0) "," OF_RANK(9, 1) "]";
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 0}), "cleared\ncleared\n");
    struct kv_json_ids ids = kv_json_ids(reader);
    CHECK(ids.is_numbered && !ids.is_broken && ids.first == 4 && ids.last == 5);
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 1}), "cleared\ncleared\n");
    ids = kv_json_ids(reader);
    CHECK(ids.is_numbered && ids.is_broken && ids.first == 7 && ids.last == 9);
    CHECK_STR(read_for(shared, &(struct kv_json_owner){.rank = 2}), "");
    CHECK(!kv_json_ids(reader).is_numbered);
    CHECK_STR(
        read_for("{'rank':2,'events':[{'type':'cleared'}]}", &(struct kv_json_owner){.rank = 1}),
        "");
    CHECK_STR(
        read_for("{'rank':2,'events':[{'type':'cleared'}]}", &(struct kv_json_owner){.rank = 2}),
        "cleared\n");
}
