// SPDX-License-Identifier: Apache-2.0
//
// memo_scene.h -- a memo and those who use it, with a tokenizer of the tests' own: a word with the
// spaces before it is a token, and bytes are counted as they are encoded, so that what was
// remembered shows.
//
// The tokenizer's functions are defined here instead of src/tokenizer/tokenizer.c: include it once.
#pragma once

#include "base/hash.h"
#include "base/rng.h"
#include "test.h"
#include "tokenizer/bpe/memo.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct tokenizer {
    uint64_t fingerprint;
    bool has_cuts;
};

struct tokenizer_scratch {
    uint64_t encoded; // bytes
};

enum { id_begin = 1, id_end = 2, text_max = 1 << 16, id_room = text_max + 2 };

uint64_t tokenizer_fingerprint(const struct tokenizer *tokenizer)
{
    return tokenizer->fingerprint;
}

bool tokenizer_has_cuts(const struct tokenizer *tokenizer)
{
    return tokenizer->has_cuts;
}

// Before a single space.
size_t tokenizer_cut(const struct tokenizer *tokenizer, struct slice text, size_t from)
{
    ASSERT(tokenizer->has_cuts && from < text.size);
    for (size_t at = from > 0 ? from : 1; at + 1 < text.size; at++) {
        if (text.bytes[at] == ' ' && text.bytes[at - 1] != ' ' && text.bytes[at + 1] != ' ') {
            return at;
        }
    }
    return text.size;
}

static bool put_id(uint32_t *ids, size_t capacity, size_t *count, uint64_t id)
{
    if (*count == capacity) {
        return false;
    }
    ids[(*count)++] = (uint32_t)id;
    return true;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             const struct tokenizer_input *input, uint32_t *ids, size_t capacity,
                             size_t *count)
{
    struct slice text = input->text;
    size_t found = 0;
    bool fits = true;
    scratch->encoded += text.size;
    if (input->adds_special && !input->continues) {
        fits = fits && put_id(ids, capacity, &found, id_begin);
    }
    for (size_t at = 0; at < text.size;) {
        size_t end = at;
        while (end < text.size && text.bytes[end] == ' ') {
            end++;
        }
        while (end < text.size && text.bytes[end] != ' ') {
            if (text.bytes[end++] == 0xff) {
                return STATUS_MALFORMED;
            }
        }
        uint64_t id = hash_bytes(slice_of(text.bytes + at, end - at), tokenizer->fingerprint);
        fits = fits && put_id(ids, capacity, &found, id);
        at = end;
    }
    if (input->adds_special && !input->is_continued) {
        fits = fits && put_id(ids, capacity, &found, id_end);
    }
    if (!fits) {
        return STATUS_TOO_LARGE;
    }
    *count = found;
    return STATUS_OK;
}

static struct memo *some_memo(size_t memory, uint32_t thread_count)
{
    return memo_create(&(struct memo_options){
        .memory = memory, .thread_count = thread_count, .secret = {{0x1234, 0x5678}}});
}

// Words of up to 9 bytes; a few runs of spaces and long words, so that segments differ in size.
static void fill_text(struct rng *rng, uint8_t *text, size_t size)
{
    for (size_t at = 0; at < size; at++) {
        text[at] = (uint8_t)('a' + rng_below(rng, 26));
        if (rng_below(rng, 6) == 0) {
            text[at] = ' ';
        }
    }
    if (size > 4000 && rng_below(rng, 4) == 0) {
        memset(text + rng_below(rng, (uint32_t)size - 3000), 'x', 3000);
    }
}

static const struct tokenizer plain = {.fingerprint = 77, .has_cuts = true};

// A thread's own.
struct bench {
    struct memo_task task;
    struct tokenizer_scratch scratch;
    uint32_t ids[id_room];
    uint32_t expected[id_room];
};

static void bench_begin(struct bench *bench, struct memo *memo, struct slice text)
{
    bench->scratch.encoded = 0;
    bench->task = (struct memo_task){
        .memo = memo,
        .tokenizer = &plain,
        .scratch = &bench->scratch,
        .input = {.text = text},
        .ids = bench->ids,
        .capacity = id_room,
    };
    memo_begin(&bench->task);
}

// Whether what the task has is what encoding the whole gives.
static bool is_right(struct bench *bench)
{
    struct tokenizer_scratch scratch = {0};
    size_t count;
    return tokenizer_encode(bench->task.tokenizer, &scratch, &bench->task.input, bench->expected,
                            id_room, &count) == STATUS_OK &&
           bench->task.done == bench->task.input.text.size && bench->task.count == count &&
           memcmp(bench->ids, bench->expected, count * sizeof(bench->ids[0])) == 0;
}

enum {
    root_count = 4,
    root_size = 12000,
    thread_max = 3,
};

// Prompts that begin like one of a few, up to somewhere, and go on by themselves.
struct crowd {
    struct memo *memo;
    uint32_t prompt_count;
    uint8_t roots[root_count][root_size];
    _Atomic uint64_t known;
    _Atomic uint64_t wrong; // must stay 0
    _Atomic uint32_t threads;
};

static struct crowd crowd;

static void *run_crowd(void *unused)
{
    (void)unused;
    uint32_t thread = atomic_fetch_add(&crowd.threads, 1);
    struct rng rng = {.state = 100 + thread};
    struct bench *own = calloc(1, sizeof(*own));
    for (unsigned i = 0; i < crowd.prompt_count && own != NULL; i++) {
        uint8_t prompt[root_size];
        size_t same = rng_below(&rng, root_size);
        size_t size = same + rng_below(&rng, root_size - (uint32_t)same);
        memcpy(prompt, crowd.roots[rng_below(&rng, root_count)], same);
        fill_text(&rng, prompt + same, size - same);
        bench_begin(own, crowd.memo, slice_of(prompt, size));
        own->task.thread = thread;
        own->task.input.adds_special = rng_below(&rng, 8) == 0;
        memo_begin(&own->task);
        enum status status;
        do {
            status = memo_continue(&own->task, 1 + rng_below(&rng, 8000));
        } while (status == STATUS_OK && own->task.done < size);
        crowd.wrong += status != STATUS_OK || !is_right(own);
        crowd.known += own->task.known_bytes;
    }
    crowd.wrong += own == NULL;
    free(own);
    return NULL;
}

// Each thread has so many prompts.  Little memory means that everything is overwritten all the
// time, while others read it.  False when it could not be done.
static bool crowd_run(uint32_t thread_count, size_t memory, uint32_t prompt_count)
{
    struct rng rng = {.state = 11};
    pthread_t threads[thread_max];
    crowd.memo = some_memo(memory, thread_count);
    crowd.prompt_count = prompt_count;
    for (unsigned i = 0; i < root_count; i++) {
        fill_text(&rng, crowd.roots[i], root_size);
    }
    crowd.known = 0;
    crowd.wrong = 0;
    crowd.threads = 0;
    uint32_t started = 0;
    while (crowd.memo != NULL && started < thread_count &&
           pthread_create(&threads[started], NULL, run_crowd, NULL) == 0) {
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
    memo_destroy(&crowd.memo);
    return started == thread_count;
}
