// SPDX-License-Identifier: Apache-2.0
//
// prompt_scene.h -- bodies read and hashed byte by byte: with blocks of one byte, as many keys are
// equal as bytes of the two prompts are.
#pragma once

#include "api/prompt.h"
#include "base/base.h"

enum { scene_key_max = 1 << 16 };

struct scene {
    struct prompt_reader *reader;
    struct prompt prompt;
    struct prefix_chain chain;
    uint64_t keys[scene_key_max];
};

// One of a few, which live as long as the program: a test may end anywhere.
enum { scene_count = 4 };
static inline struct scene *scene_of(uint32_t index)
{
    static struct scene scenes[scene_count];
    ASSERT(index < scene_count);
    struct scene *scene = &scenes[index];
    if (scene->reader == NULL) {
        scene->reader = prompt_reader_create();
        ASSERT(scene->reader != NULL);
    }
    return scene;
}

static inline void scene_read_slice(struct scene *scene, enum prompt_api api, struct slice body)
{
    prompt_read(scene->reader, api, body, &scene->prompt);
    struct prefix_space space = {
        .model = scene->prompt.model, .adapter = scene->prompt.adapter, .salt = scene->prompt.salt};
    uint64_t seed =
        scene->prompt.form == PROMPT_TOKENS ? prefix_seed(&space) : prefix_text_seed(&space);
    prefix_chain_begin(&scene->chain, seed, 1, scene->keys, scene_key_max);
    prompt_hash(scene->reader, &scene->prompt, &scene->chain);
}

// A body as JSON text.
static inline void scene_read(struct scene *scene, enum prompt_api api, const char *body)
{
    scene_read_slice(scene, api, slice_str(body));
}

static inline uint32_t scene_common(const struct scene *a, const struct scene *b)
{
    uint32_t count = 0;
    while (count < a->chain.key_count && count < b->chain.key_count &&
           a->keys[count] == b->keys[count]) {
        count++;
    }
    return count;
}

// How many bytes at the beginning of two bodies' prompts are the same; -1: all, and no more in
// either.
static inline int64_t bodies_common(enum prompt_api api, const char *first, const char *second)
{
    struct scene *a = scene_of(2);
    struct scene *b = scene_of(3);

    scene_read(a, api, first);
    scene_read(b, api, second);
    ASSERT(a->prompt.form != PROMPT_NOTHING && b->prompt.form != PROMPT_NOTHING);
    int64_t common = scene_common(a, b);
    if (a->chain.size == b->chain.size && common == (int64_t)a->chain.size) {
        common = -1;
    }
    return common;
}

static inline bool bodies_equal(enum prompt_api api, const char *first, const char *second)
{
    return bodies_common(api, first, second) == -1;
}
