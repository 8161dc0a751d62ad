// SPDX-License-Identifier: Apache-2.0
//
// One memo, tokenizers of several kinds, and conversations that grow, branch off each other and
// come back: whatever the memo keeps or drops, the ids are those of encoding the whole.

#include "base/rng.h"
#include "test.h"
#include "tokenizer/bpe/memo.h"
#include "tokenizer/tokenizer_fixture.h"

enum { chat_count = 6, chat_max = 8192, id_max = chat_max + 64, turn_count = 3000 };

#define ADDED                                                                                      \
    FIXTURE_ADDED(265, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(266, "<n>", FIXTURE_NORMALIZED)
#define PIECE_ADDED                                                                                \
    FIXTURE_ADDED(1, "<s>", FIXTURE_PLAIN) "," FIXTURE_ADDED(2, "</s>", FIXTURE_PLAIN)
#define AROUND(cls, sep)                                                                           \
    "{\"type\":\"BertProcessing\",\"sep\":[\"\"," #sep "],\"cls\":[\"\"," #cls "]}"

static const struct fixture_parts kinds[] = {
    {.pre_tokenizer = FIXTURE_LIKE_LLAMA3, .added = ADDED, .post_processor = AROUND(265, 266)},
    {.pre_tokenizer = FIXTURE_LIKE_LLAMA3, .added = ADDED, .normalizer = "{\"type\":\"NFC\"}"},
    {.pre_tokenizer = FIXTURE_LIKE_GPT2, .added = ADDED, .post_processor = AROUND(266, 265)},
    {.is_sentence_piece = true,
     .normalizer = FIXTURE_LIKE_LLAMA2,
     .added = PIECE_ADDED,
     .post_processor = AROUND(1, 2)},
    {.is_sentence_piece = true,
     .pre_tokenizer = FIXTURE_METASPACE("first", "false"),
     .added = PIECE_ADDED,
     .post_processor = AROUND(1, 2)},
};

static const char *const bits[] = {
    "hello", " wo",  "he", "ll", " ",   " a", "\n",       "\n\n",     "o x",          "1",
    "11",    "'s",   "!",  "/",  "<s>", "<n", "\u00e9",   "e\u0301",  "\u65e5\u672c", "\u2581",
    "\t",    " </s", "x",  "  ", "<n>", ". ", " \u0301a", "\u3000 b", " w",           "\r\n",
};

struct scene {
    struct memo *memo;
    struct tokenizer *tokenizers[ARRAY_COUNT(kinds)];
    struct tokenizer_scratch *scratches[ARRAY_COUNT(kinds)];
    struct {
        uint8_t bytes[chat_max];
        size_t size;
    } chats[chat_count];
    uint64_t known;
    uint64_t wrong; // must stay 0
};

static struct scene scene;

static bool scene_begin(size_t memory)
{
    scene = (struct scene){0};
    scene.memo = memo_create(
        &(struct memo_options){.memory = memory, .thread_count = 2, .secret = {{1, 2}}});
    bool is_whole = scene.memo != NULL;
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        scene.tokenizers[i] = fixture_load(&kinds[i]);
        scene.scratches[i] = tokenizer_scratch_create(scene.tokenizers[i]);
        is_whole = is_whole && scene.scratches[i] != NULL;
    }
    return is_whole;
}

static void scene_end(void)
{
    memo_destroy(&scene.memo);
    for (size_t i = 0; i < ARRAY_COUNT(kinds); i++) {
        tokenizer_scratch_destroy(&scene.scratches[i]);
        tokenizer_destroy(&scene.tokenizers[i]);
    }
}

// A chat gets longer; now and then it begins anew, or with what another one has.
static struct slice next_turn(struct rng *rng)
{
    uint32_t number = rng_below(rng, chat_count);
    uint8_t *bytes = scene.chats[number].bytes;
    size_t *size = &scene.chats[number].size;
    uint32_t other = rng_below(rng, 10 * chat_count);
    if (other < chat_count) {
        *size = scene.chats[other].size / 4 * rng_below(rng, 4);
        while (*size > 0 && (scene.chats[other].bytes[*size] & 0xc0) == 0x80) {
            --*size; // to the beginning of a character
        }
        memmove(bytes, scene.chats[other].bytes, *size);
    }
    for (uint32_t i = rng_below(rng, 300); i > 0; i--) {
        struct slice bit = slice_str(bits[rng_below(rng, ARRAY_COUNT(bits))]);
        if (chat_max - *size < bit.size) {
            *size = 0;
        }
        memcpy(bytes + *size, bit.bytes, bit.size);
        *size += bit.size;
    }
    return slice_of(bytes, *size);
}

static bool has_right_ids(struct rng *rng, struct slice text)
{
    static uint32_t ids[id_max];
    static uint32_t expected[id_max];
    uint32_t kind = rng_below(rng, ARRAY_COUNT(kinds));
    struct memo_task task = {
        .memo = scene.memo,
        .thread = rng_below(rng, 2),
        .tokenizer = scene.tokenizers[kind],
        .scratch = scene.scratches[kind],
        .input = {.text = text, .adds_special = rng_below(rng, 2) == 0},
        .ids = ids,
        .capacity = id_max,
    };
    size_t count;
    enum status status =
        tokenizer_encode(task.tokenizer, task.scratch, &task.input, expected, id_max, &count);
    memo_begin(&task);
    do {
        if (status == STATUS_OK) {
            status = memo_continue(&task, 1 + rng_below(rng, 4000));
        }
    } while (status == STATUS_OK && task.done < text.size);
    scene.known += task.known_bytes;
    return status == STATUS_OK && task.count == count &&
           memcmp(ids, expected, count * sizeof(ids[0])) == 0;
}

static void run_scene(uint64_t seed)
{
    struct rng rng = {.state = seed};
    for (uint32_t i = 0; i < turn_count; i++) {
        scene.wrong += !has_right_ids(&rng, next_turn(&rng));
    }
}

TEST(ids_are_those_of_the_whole_while_much_is_forgotten)
{
    CHECK(scene_begin(24 << 10));
    run_scene(1);
    scene_end();
    CHECK_EQ(scene.wrong, 0);
    CHECK(scene.known > 0);
}

TEST(ids_are_those_of_the_whole_while_all_is_remembered)
{
    CHECK(scene_begin(32 << 20));
    run_scene(2);
    scene_end();
    CHECK_EQ(scene.wrong, 0);
    CHECK(scene.known > 1000000);
}
