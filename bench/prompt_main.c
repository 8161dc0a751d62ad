// SPDX-License-Identifier: Apache-2.0
//
// bench_prompt -- from the body of a chat request to the keys of its blocks, on one core:
// `bench_prompt --tokenizer DIR --size 16384 --repetitions 5`.
//
// JSON, template, ids and block keys, as the router does it.  Prints one line for each figure:
// metric, value, unit.  Cold is a prompt of which nothing was seen before, with a fresh scratch;
// unseen is the same with a scratch that knows the words of other prompts; known is a prompt whose
// last message alone is new.  Time is that of the thread on its core, the median over many prompts.

#include "base/base.h"
#include "base/text.h"
#include "chat.h"
#include "flags.h"
#include "keeper/dialects.h"
#include "prefix/prefix_chain.h"
#include "sys/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    repetitions_max = 99,
    prompt_count = 64,
    cold_count = 8, // each with a scratch of its own
    key_max = 1 << 16,
    block_tokens = 16,
    text_max = 1 << 20,
};

struct bench {
    struct dialect_set *set;
    struct token_thread *thread;
    struct token_reader *reader;
    struct prompt_reader *prompts;
    uint64_t *keys;
    uint8_t *space; // of the bodies
    size_t room;    // of each
    struct slice bodies[prompt_count];
    struct chat_body parts[prompt_count];
    uint64_t tokens;
    uint64_t stamp;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void figure(const char *metric, double value, const char *unit)
{
    printf("%s %.6g %s\n", metric, value, unit);
    fflush(stdout);
}

// Microseconds from body to keys.
static double once(struct bench *bench, struct slice body)
{
    struct prompt prompt;
    struct prefix_chain chain;
    struct token_result result = {0};

    uint64_t begin = clock_ns();
    prompt_read(bench->prompts, PROMPT_CHAT, body, &prompt);
    enum status status =
        token_reader_begin(bench->reader,
                           &(struct token_request){.dialect = bench->set->dialects[0],
                                                   .api = PROMPT_CHAT,
                                                   .body = body,
                                                   .wall_s = 1000000},
                           SIZE_MAX, &result);
    struct prefix_space space = {.model = prompt.model};
    prefix_chain_begin(&chain, prefix_seed(&space), block_tokens * sizeof(uint32_t), bench->keys,
                       key_max);
    prefix_chain_add(&chain, slice_of(result.ids, result.count * sizeof(uint32_t)));
    double took_us = (double)(clock_ns() - begin) / 1000;
    if (status != STATUS_OK) {
        fprintf(stderr, "%s\n", token_reader_why(bench->reader));
        abort(); // there is nothing to measure
    }
    ASSERT(chain.key_count == result.count / block_tokens);
    bench->tokens = result.count;
    return took_us;
}

// Forgets everything: scratch and memo.
static void renew(struct bench *bench)
{
    token_reader_destroy(&bench->reader);
    token_thread_destroy(&bench->thread);
    memo_destroy(&bench->set->memo);
    bench->set->memo = memo_create(
        &(struct memo_options){.memory = 64 << 20, .thread_count = 1, .secret = {{1, 2}}});
    bench->thread = token_thread_create(bench->set, 0);
    ASSERT(bench->set->memo != NULL && bench->thread != NULL);
    bench->reader = token_reader_create(bench->thread, text_max);
    ASSERT(bench->reader != NULL);
}

static void write_bodies(struct bench *bench, uint32_t size)
{
    size_t room = size + chat_body_extra_max;
    bench->room = room;
    bench->space = malloc(prompt_count * room);
    ASSERT(bench->space != NULL);
    for (uint32_t i = 0; i < prompt_count; i++) {
        struct text text = text_over(bench->space + i * room, room);
        bench->parts[i] = chat_write(
            &(struct chat_plan){
                .application = i, .conversation = i, .system_size = size / 4, .size = size},
            &text);
        ASSERT(!text.overflow);
        bench->bodies[i] = text_slice(&text);
    }
}

static double cold(struct bench *bench)
{
    double times[cold_count];
    for (uint32_t i = 0; i < cold_count; i++) {
        renew(bench);
        times[i] = once(bench, bench->bodies[i]);
    }
    return median(times, cold_count);
}

static double unseen(struct bench *bench)
{
    double times[prompt_count];
    renew(bench);
    for (uint32_t i = 0; i < prompt_count; i++) {
        times[i] = once(bench, bench->bodies[i]);
    }
    return median(times + prompt_count / 2, prompt_count / 2);
}

// The prompts are known; now each comes with another last message.
static double known(struct bench *bench)
{
    double times[prompt_count];
    for (uint32_t i = 0; i < prompt_count; i++) {
        chat_stamp(bench->space + i * bench->room + bench->parts[i].stamp_at, ++bench->stamp);
        times[i] = once(bench, bench->bodies[i]);
    }
    return median(times, prompt_count);
}

static void run(struct bench *bench, uint64_t repetitions)
{
    double colds[repetitions_max];
    double unseens[repetitions_max];
    double knowns[repetitions_max];
    const struct dialect *dialect = bench->set->dialects[0];

    for (uint64_t i = 0; i < repetitions; i++) {
        colds[i] = cold(bench);
        unseens[i] = unseen(bench);
        uint64_t bytes = atomic_load(&dialect->shared.text_bytes);
        uint64_t found = atomic_load(&dialect->shared.known_bytes);
        knowns[i] = known(bench);
        bytes = atomic_load(&dialect->shared.text_bytes) - bytes;
        found = atomic_load(&dialect->shared.known_bytes) - found;
        if (i + 1 == repetitions) {
            figure("known_share", (double)found / (double)bytes, "x");
        }
    }
    figure("cold_us", median(colds, repetitions), "us");
    figure("unseen_us", median(unseens, repetitions), "us");
    figure("known_us", median(knowns, repetitions), "us");
    figure("tokens", (double)bench->tokens, "1");
    figure("last_share", (double)bench->parts[0].last_size / (double)bench->bodies[0].size, "x");
}

int main(int argc, char **argv)
{
    uint64_t repetitions = 5;
    uint64_t size = 16384;
    const char *tokenizer = NULL;
    const struct flag flags[] = {{.name = "repetitions", .number = &repetitions},
                                 {.name = "size", .number = &size},
                                 {.name = "tokenizer", .text = &tokenizer}};
    if (!flags_read(flags, ARRAY_COUNT(flags), argc - 1, argv + 1)) {
        return 2;
    }
    if (!tokenizer || repetitions == 0 || repetitions > repetitions_max || size > text_max / 4) {
        fprintf(stderr, "needed: --tokenizer DIR; repetitions: 1 to %d\n", repetitions_max);
        return 2;
    }
    struct config_tokenizer row = {.path = tokenizer, .trust = true};
    struct config config = {.tokenizers = &row, .tokenizer_count = 1, .tokens.memo = 1 << 20};
    struct bench bench = {.prompts = prompt_reader_create(),
                          .keys = malloc(key_max * sizeof(uint64_t))};
    log_set_level(LOG_LEVEL_ERROR);
    ASSERT(bench.prompts != NULL && bench.keys != NULL);
    if (dialects_open(&config, 1, &bench.set) != STATUS_OK || bench.set == NULL) {
        return 1;
    }
    write_bodies(&bench, (uint32_t)size);
    run(&bench, repetitions);
    return 0;
}
