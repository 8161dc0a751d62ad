// SPDX-License-Identifier: Apache-2.0

#include "engine/engine_job.h"

#include "base/hash.h"
#include "base/text.h"
#include "prefix/chain_token.h"
#include "sim/workload/content.h"
#include "test.h"

#include <stdlib.h>

struct bench {
    struct profile profile;
    struct engine *engine;
    struct prompt_reader *reader;
    struct engine_job_rules rules;
    struct engine_refusal refusal;
};

static void open_bench(struct bench *bench)
{
    *bench = (struct bench){0};
    ASSERT(profile_find("codellama-13b", &bench->profile));
    bench->engine = engine_create(&bench->profile, &(struct engine_observer){0});
    bench->reader = prompt_reader_create();
    ASSERT(bench->engine != NULL && bench->reader != NULL);
    bench->rules = (struct engine_job_rules){
        .profile = &bench->profile,
        .models = {{.name = "m"}, {.name = "l", .parent = "m"}},
        .model_count = 2,
        .output_tokens = 50,
    };
}

static void close_bench(struct bench *bench)
{
    prompt_reader_destroy(&bench->reader);
    engine_destroy(&bench->engine);
}

static struct engine_job *read_job(struct bench *bench, enum prompt_api api, const char *body)
{
    return engine_job_read(&bench->rules, bench->engine, bench->reader, api, slice_str(body),
                           &bench->refusal);
}

// A chat: 'u' is what the user says, 'a' what the assistant has answered before and 'v' the next.
static struct engine_job *read_chat(struct bench *bench, const char *u, const char *a,
                                    const char *v, const char *more)
{
    static char body[65536];
    struct text text = text_over(body, sizeof(body) - 1);
    text_add_str(&text, "{\"messages\":[{\"role\":\"user\",\"content\":");
    text_add_json(&text, slice_str(u));
    if (a != NULL) {
        text_add_str(&text, "},{\"role\":\"assistant\",\"content\":");
        text_add_json(&text, slice_str(a));
        text_add_str(&text, "},{\"role\":\"user\",\"content\":");
        text_add_json(&text, slice_str(v));
    }
    text_add_format(&text, "}]%s}", more);
    ASSERT(!text.overflow);
    body[text.size] = '\0';
    return read_job(bench, PROMPT_CHAT, body);
}

static uint32_t common_keys(const struct engine_job *a, const struct engine_job *b)
{
    uint32_t count = 0;
    while (count < a->request.key_count && count < b->request.key_count &&
           a->keys[count] == b->keys[count]) {
        count++;
    }
    return count;
}

TEST(four_bytes_of_text_are_a_token)
{
    struct bench bench;
    open_bench(&bench);
    struct engine_job *job =
        read_job(&bench, PROMPT_COMPLETION, "{\"prompt\":\"abcdefghi\",\"max_tokens\":7}");
    CHECK_EQ(job->request.prompt_tokens, 3);
    CHECK_EQ(job->request.output_tokens, 7);
    CHECK(job->response.is_limited && !job->is_streamed);
    engine_job_destroy(&job);
    job = read_job(&bench, PROMPT_COMPLETION, "{\"prompt\":[1,2,3,4,5],\"stream\":true}");
    CHECK_EQ(job->request.prompt_tokens, 5);
    CHECK_EQ(job->request.output_tokens, 50);
    CHECK(!job->response.is_limited && job->is_streamed && !job->wants_usage);
    engine_job_destroy(&job);
    close_bench(&bench);
}

TEST(whole_blocks_of_prompt_and_response_have_keys)
{
    struct bench bench;
    open_bench(&bench);
    for (uint32_t output = 1; output < 70; output++) {
        char more[64];
        snprintf(more, sizeof(more), ",\"max_tokens\":%u", output);
        struct engine_job *job =
            read_chat(&bench, "What is this about, in a few words?", NULL, NULL, more);
        uint32_t tokens = job->request.prompt_tokens + output;
        CHECK_EQ(job->request.key_count, tokens / 16);
        engine_job_destroy(&job);
    }
    close_bench(&bench);
}

TEST(the_next_turn_has_the_blocks_of_the_last_response)
{
    struct bench bench;
    open_bench(&bench);
    struct engine_job *first =
        read_chat(&bench, "Tell me of the sea.", NULL, NULL, ",\"max_tokens\":100");
    char words[401] = "";
    content_text(first->response.text_id, 0, 100, words);
    struct engine_job *second =
        read_chat(&bench, "Tell me of the sea.", words, "And of the hills?", "");
    CHECK(first->request.key_count >= 6);
    CHECK_EQ(common_keys(first, second), first->request.key_count);
    words[8] ^= 1;
    struct engine_job *other =
        read_chat(&bench, "Tell me of the sea.", words, "And of the hills?", "");
    CHECK(common_keys(first, other) < 2);
    engine_job_destroy(&first);
    engine_job_destroy(&second);
    engine_job_destroy(&other);
    close_bench(&bench);
}

TEST(salts_adapters_and_seeds_set_apart)
{
    static const char long_text[] =
        "A text that is long enough for a few blocks of sixteen tokens each, so that there is "
        "something to compare, and then some more of it to be on the safe side of things.";
    static const char *const others[] = {",\"cache_salt\":\"s\"", ",\"model\":\"l\"",
                                         ",\"lora_name\":\"x\""};
    struct bench bench;
    open_bench(&bench);
    struct engine_job *job = read_chat(&bench, long_text, NULL, NULL, "");
    struct engine_job *same = read_chat(&bench, long_text, NULL, NULL, ",\"model\":\"m\"");
    CHECK_EQ(common_keys(job, same), job->request.key_count);
    CHECK(job->response.text_id == same->response.text_id);
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        struct engine_job *other = read_chat(&bench, long_text, NULL, NULL, others[i]);
        CHECK_EQ(common_keys(job, other), 0);
        engine_job_destroy(&other);
    }
    engine_job_destroy(&same);
    bench.rules.seed = 1;
    same = read_chat(&bench, long_text, NULL, NULL, "");
    CHECK(common_keys(job, same) > 0);
    CHECK(job->response.text_id != same->response.text_id);
    engine_job_destroy(&same);
    engine_job_destroy(&job);
    close_bench(&bench);
}

static const struct {
    const char *body;
    const char *message;
    enum prompt_api api;
    uint32_t status;
} refusals[] = {
    {"{", "the body is not valid JSON", PROMPT_CHAT, 400},
    {"", "the body is not valid JSON", PROMPT_CHAT, 400},
    {"{}", "messages: field required", PROMPT_CHAT, 400},
    {"{\"messages\":[]}", "messages: must be a list with at least one message", PROMPT_CHAT, 400},
    {"{\"messages\":[]}", "prompt: field required", PROMPT_COMPLETION, 400},
    {"{\"prompt\":7}", "prompt: must be a text or a list of token ids", PROMPT_COMPLETION, 400},
    {"{\"prompt\":\"\"}", "the prompt is empty", PROMPT_COMPLETION, 400},
    {"{\"prompt\":\"a\",\"model\":\"z\"}", "the model `z` does not exist", PROMPT_COMPLETION, 404},
    {"{\"prompt\":\"a\",\"n\":2}", "only one prompt and one response per request are simulated",
     PROMPT_COMPLETION, 400},
    {"{\"prompt\":[\"a\",\"b\"]}", "only one prompt and one response per request are simulated",
     PROMPT_COMPLETION, 400},
    {"{\"prompt\":\"a\",\"max_tokens\":131072}",
     "the prompt has 1 tokens and the response may have 131072, which is more than the maximum "
     "context length of 131072 tokens or than the KV cache of 123132 tokens",
     PROMPT_COMPLETION, 400},
    {"{\"prompt\":\"a\",\"max_tokens\":18446744073709551615}",
     "the prompt has 1 tokens and the response may have 18446744073709551615, which is more than "
     "the "
     "maximum context length of 131072 tokens or than the KV cache of 123132 tokens",
     PROMPT_COMPLETION, 400},
};

TEST(a_request_that_cannot_be_served_is_refused_with_a_reason)
{
    struct bench bench;
    open_bench(&bench);
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        CHECK(read_job(&bench, refusals[i].api, refusals[i].body) == NULL);
        CHECK_EQ(bench.refusal.status, refusals[i].status);
        CHECK_STR(bench.refusal.message, refusals[i].message);
    }
    close_bench(&bench);
}

TEST(a_response_without_a_set_length_ends_with_the_context)
{
    struct bench bench;
    open_bench(&bench);
    bench.profile.context_max = 60;
    engine_destroy(&bench.engine);
    bench.engine = engine_create(&bench.profile, &(struct engine_observer){0});
    char body[256] = "{\"prompt\":\"0123456789012345678901234567890123456789"
                     "01234567890123456789012345678901234567890123456789\"}";
    struct engine_job *job = read_job(&bench, PROMPT_COMPLETION, body);
    CHECK_EQ(job->request.prompt_tokens, 23);
    CHECK_EQ(job->request.output_tokens, 37);
    engine_job_destroy(&job);
    close_bench(&bench);
}

// The keys that a router makes of published blocks: it knows no model and no salt, but the adapter.
static uint32_t published_keys(const struct engine_job *job, uint64_t *keys)
{
    uint64_t last = prefix_seed(
        &(struct prefix_space){.adapter = slice_str(job->adapter != NULL ? job->adapter : "")});
    for (uint32_t i = 0; i < job->request.key_count; i++) {
        uint32_t ids[16];
        engine_job_block_ids(job, i, 16, ids);
        last = hash_bytes(slice_of(ids, sizeof(ids)), last);
        keys[i] = last;
    }
    return job->request.key_count;
}

// The keys of a prompt of ids, as the router makes them.
static uint32_t prompt_keys(const uint32_t *ids, uint32_t count, const char *adapter,
                            uint64_t *keys)
{
    struct prefix_chain chain;
    prefix_chain_begin(&chain, prefix_seed(&(struct prefix_space){.adapter = slice_str(adapter)}),
                       16 * sizeof(uint32_t), keys, count / 16);
    for (uint32_t i = 0; i < count; i++) {
        chain_add_token(&chain, ids[i]);
    }
    return chain.key_count;
}

static struct engine_job *read_ids(struct bench *bench, const uint32_t *ids, uint32_t count,
                                   const char *model, uint32_t output)
{
    static char body[65536];
    struct text text = text_over(body, sizeof(body) - 1);
    text_add_format(&text, "{\"model\":\"%s\",\"max_tokens\":%u,\"prompt\":[", model, output);
    for (uint32_t i = 0; i < count; i++) {
        text_add_format(&text, i > 0 ? " , %u" : "%u", ids[i]);
    }
    text_add_str(&text, "]}");
    ASSERT(!text.overflow);
    body[text.size] = '\0';
    return read_job(bench, PROMPT_COMPLETION, body);
}

TEST(ids_of_blocks_are_the_ids_that_were_sent_and_then_the_bytes_of_the_response)
{
    struct bench bench;
    uint32_t sent[17];
    uint32_t ids[16];
    char words[31 * content_token_size];
    open_bench(&bench);
    bench.rules.keeps_ids = true;
    for (uint32_t i = 0; i < 16; i++) {
        sent[i] = 100 + i;
    }
    sent[16] = UINT32_MAX;
    struct engine_job *job = read_ids(&bench, sent, 17, "m", 31);
    engine_job_block_ids(job, 0, 16, ids);
    CHECK(memcmp(ids, sent, sizeof(ids)) == 0);
    engine_job_block_ids(job, 1, 16, ids);
    CHECK_EQ(ids[0], UINT32_MAX);
    content_text(job->response.text_id, 0, 31, words);
    CHECK(memcmp(ids + 1, words, sizeof(ids) - sizeof(ids[0])) == 0);
    engine_job_destroy(&job);
    close_bench(&bench);
}

TEST(ids_of_text_are_its_bytes_four_a_token)
{
    static const char words[] = "the same text twice, which is a block and then some more of it, "
                                "and of what follows there is no more than";
    struct bench bench;
    uint32_t ids[16];
    char body[256];
    open_bench(&bench);
    bench.rules.keeps_ids = true;
    snprintf(body, sizeof(body), "{\"prompt\":\"%s\",\"max_tokens\":1}", words);
    struct engine_job *job = read_job(&bench, PROMPT_COMPLETION, body);
    CHECK_EQ(job->request.key_count, 1);
    engine_job_block_ids(job, 0, 16, ids);
    CHECK(memcmp(ids, words, sizeof(ids)) == 0);
    engine_job_destroy(&job);
    close_bench(&bench);
}

TEST(the_ids_of_the_next_turn_match_the_published_blocks)
{
    enum { first_count = 37, output = 77, second_count = first_count + output + 30 };
    static const char *const models[] = {"m", "l"};
    struct bench bench;
    uint32_t ids[second_count];
    uint64_t published[16];
    uint64_t wanted[16];
    open_bench(&bench);
    bench.rules.keeps_ids = true;
    for (size_t m = 0; m < ARRAY_COUNT(models); m++) {
        for (uint32_t i = 0; i < second_count; i++) {
            content_text(m, i, 1, (char *)&ids[i]);
        }
        struct engine_job *first = read_ids(&bench, ids, first_count, models[m], output);
        content_text(first->response.text_id, 0, output, (char *)(ids + first_count));
        uint32_t count = published_keys(first, published);
        CHECK_EQ(count, (first_count + output) / 16);
        CHECK_EQ(prompt_keys(ids, second_count, m == 0 ? "" : "l", wanted), second_count / 16);
        CHECK(memcmp(published, wanted, count * sizeof(uint64_t)) == 0);
        // The engine finds as much.
        struct engine_job *second = read_ids(&bench, ids, second_count, models[m], 1);
        CHECK_EQ(common_keys(first, second), count);
        engine_job_destroy(&first);
        engine_job_destroy(&second);
    }
    close_bench(&bench);
}

TEST(a_salt_is_kept_where_ids_are)
{
    static const char body[] = "{\"prompt\":[1,2],\"max_tokens\":1,\"cache_salt\":\"pinch\"}";
    struct bench bench;
    open_bench(&bench);
    struct engine_job *job = read_job(&bench, PROMPT_COMPLETION, body);
    CHECK(job->salt == NULL);
    engine_job_destroy(&job);
    bench.rules.keeps_ids = true;
    job = read_job(&bench, PROMPT_COMPLETION, body);
    CHECK_STR(job->salt, "pinch");
    engine_job_destroy(&job);
    job = read_job(&bench, PROMPT_COMPLETION, "{\"prompt\":[1,2],\"max_tokens\":1}");
    CHECK(job->salt == NULL);
    engine_job_destroy(&job);
    close_bench(&bench);
}

TEST(the_text_of_the_next_turn_matches_the_published_blocks)
{
    struct bench bench;
    uint64_t before[16];
    uint64_t after[32];
    char words[401] = "";
    open_bench(&bench);
    bench.rules.keeps_ids = true;
    struct engine_job *first =
        read_chat(&bench, "Tell me of the sea.", NULL, NULL, ",\"max_tokens\":100");
    content_text(first->response.text_id, 0, 100, words);
    struct engine_job *second =
        read_chat(&bench, "Tell me of the sea.", words, "And of the hills?", "");
    uint32_t count = published_keys(first, before);
    CHECK(count >= 6 && published_keys(second, after) > count);
    CHECK(memcmp(before, after, count * sizeof(uint64_t)) == 0);
    engine_job_destroy(&first);
    engine_job_destroy(&second);
    close_bench(&bench);
}
