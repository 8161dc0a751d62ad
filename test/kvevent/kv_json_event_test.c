// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_json.h"
#include "kvevent/kv_json_lines.h"

TEST(events_have_the_field_names_of_vllm)
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

TEST(adapter_and_salt_tell_blocks_apart)
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

// An image, an adapter without a name, ids that are pairs: tokens alone do not identify the
// block.
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
              "malformed at 6: token_ids has a number that is not an id\n"
              "malformed at 7: token_ids has a number that is not an id\n"
              "malformed at 8: block_size is not a number\n"
              "malformed at 9: the parent's hash is neither an integer of 64 bits nor hexadecimal\n"
              "malformed at 10: lora_name is not a name\n"
              "malformed at 11: cache_salt is not a name\n"
              "malformed at 12: medium is not a name\n"
              "malformed at 13: group_idx is not a number\n");
}
