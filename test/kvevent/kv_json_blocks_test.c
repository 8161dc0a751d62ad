// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_json.h"
#include "kvevent/kv_json_lines.h"

TEST(blocks_stored_by_tensorrt_llm_are_one_chain)
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
    CHECK(ids.is_numbered && !ids.is_broken);
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
TEST(blocks_removed_by_tensorrt_llm_leave_every_tier)
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
        {"[{'block_hash':1,'tokens':[{'token_id':-1}]}]", "token_id is a number that is not an id"},
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
