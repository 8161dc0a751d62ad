// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/memo.h"

#include "test.h"
#include "tokenizer/bpe/memo_scene.h"

static struct bench bench;
static uint8_t text[text_max];

static bool encode(struct memo *memo, struct slice whole)
{
    bench_begin(&bench, memo, whole);
    return memo_continue(&bench.task, SIZE_MAX) == STATUS_OK && is_right(&bench);
}

TEST(a_text_is_encoded_once)
{
    struct rng rng = {.state = 1};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 20000);
    CHECK(encode(memo, slice_of(text, 20000)));
    CHECK_EQ(bench.scratch.encoded, 20000);
    CHECK_EQ(bench.task.known_bytes, 0);
    CHECK(!bench.task.is_known);
    CHECK(encode(memo, slice_of(text, 20000)));
    CHECK_EQ(bench.scratch.encoded, 0);
    CHECK_EQ(bench.task.known_bytes, 20000);
    CHECK(bench.task.is_known);
    memo_destroy(&memo);
    CHECK(memo == NULL);
}

TEST(of_a_text_that_grew_only_the_end_is_encoded)
{
    struct rng rng = {.state = 2};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 30000);
    CHECK(encode(memo, slice_of(text, 20000)));
    CHECK(encode(memo, slice_of(text, 24000)));
    CHECK(bench.scratch.encoded >= 4000 && bench.scratch.encoded < 4000 + 1200);
    CHECK_EQ(bench.scratch.encoded + bench.task.known_bytes, 24000);
    memo_destroy(&memo);
}

// Segments behind a change have other names, whatever their bytes.
TEST(a_change_makes_everything_behind_it_unknown)
{
    struct rng rng = {.state = 3};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 20000);
    CHECK(encode(memo, slice_of(text, 20000)));
    text[10000] ^= 3;
    CHECK(encode(memo, slice_of(text, 20000)));
    CHECK(bench.scratch.encoded >= 10000 && bench.scratch.encoded < 14500);
    memo_destroy(&memo);
}

TEST(specials_and_tokenizers_have_names_of_their_own)
{
    struct rng rng = {.state = 4};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 5000);
    struct slice whole = slice_of(text, 5000);
    CHECK(encode(memo, whole));
    bench_begin(&bench, memo, whole);
    bench.task.input.adds_special = true;
    memo_begin(&bench.task);
    CHECK_EQ(memo_continue(&bench.task, SIZE_MAX), STATUS_OK);
    CHECK(is_right(&bench));
    CHECK_EQ(bench.ids[0], id_begin);
    CHECK_EQ(bench.ids[bench.task.count - 1], id_end);
    CHECK_EQ(bench.task.known_bytes, 0);

    const struct tokenizer other = {.fingerprint = 78, .has_cuts = true};
    bench_begin(&bench, memo, whole);
    bench.task.tokenizer = &other;
    memo_begin(&bench.task);
    CHECK_EQ(memo_continue(&bench.task, SIZE_MAX), STATUS_OK);
    CHECK(is_right(&bench));
    CHECK_EQ(bench.task.known_bytes, 0);
    memo_destroy(&memo);
}

// The end of one text is the middle of another: the first has an id there that the second has not.
TEST(the_last_segment_is_not_found_in_a_longer_text)
{
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    memset(text, 'a', 2000);
    text[600] = ' ';
    for (unsigned i = 0; i < 4; i++) {
        size_t size = i % 2 == 0 ? 600 : 2000;
        bench_begin(&bench, memo, slice_of(text, size));
        bench.task.input.adds_special = true;
        memo_begin(&bench.task);
        CHECK_EQ(memo_continue(&bench.task, SIZE_MAX), STATUS_OK);
        CHECK(is_right(&bench));
        CHECK_EQ(bench.task.is_known, i >= 2);
    }
    memo_destroy(&memo);
}

TEST(without_cuts_and_without_text_it_just_encodes)
{
    struct rng rng = {.state = 5};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 3000);
    const struct tokenizer uncut = {.fingerprint = 5};
    for (unsigned i = 0; i < 4; i++) {
        bench_begin(&bench, memo, slice_of(text, i < 2 ? 3000 : 0));
        bench.task.tokenizer = i < 2 ? &uncut : &plain;
        bench.task.input.adds_special = true;
        memo_begin(&bench.task);
        CHECK_EQ(memo_continue(&bench.task, 100), STATUS_OK);
        CHECK(is_right(&bench));
        CHECK_EQ(bench.task.known_bytes, 0);
        // Once more changes nothing.
        CHECK_EQ(memo_continue(&bench.task, 100), STATUS_OK);
        CHECK(is_right(&bench));
    }
    memo_destroy(&memo);
}

TEST(a_long_text_is_done_in_portions)
{
    struct rng rng = {.state = 6};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 60000);
    for (unsigned i = 0; i < 2; i++) {
        unsigned calls = 0;
        size_t most = 0; // that one call encoded
        bool goes_on = true;
        bench_begin(&bench, memo, slice_of(text, 60000));
        while (goes_on && bench.task.done < 60000) {
            size_t before = bench.scratch.encoded;
            goes_on = memo_continue(&bench.task, 4000) == STATUS_OK;
            size_t encoded = bench.scratch.encoded - before;
            most = encoded > most ? encoded : most;
            calls++;
        }
        CHECK(is_right(&bench));
        CHECK(most < 4000 + 4500);
        CHECK(i == 0 ? calls >= 7 && calls <= 16 : calls <= 3);
    }
    memo_destroy(&memo);
}

static enum status encode_uncut(struct memo *memo, const struct tokenizer *tokenizer,
                                struct slice whole, size_t portion)
{
    enum status status = STATUS_OK;
    bench_begin(&bench, memo, whole);
    bench.task.tokenizer = tokenizer;
    memo_begin(&bench.task);
    while (status == STATUS_OK && bench.task.done < whole.size) {
        status = memo_continue(&bench.task, portion);
    }
    return status;
}

// Otherwise one such request would occupy its worker.
TEST(texts_that_cannot_be_divided_into_portions_are_too_large)
{
    static uint8_t long_text[memo_whole_max + 1];
    static const struct tokenizer uncut = {.fingerprint = 5};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    memset(long_text, 'a', sizeof(long_text));
    long_text[1000] = ' ';
    for (size_t size = 1000; size < 2000 + memo_segment_max; size += memo_segment_max) {
        struct slice whole = slice_of(long_text, 1000 + size);
        long_text[1000 + memo_segment_max - 2] = size > memo_segment_max ? ' ' : 'a';
        CHECK_EQ(encode_uncut(memo, &plain, whole, 1000), STATUS_OK);
        long_text[1000 + memo_segment_max - 2] = 'a';
        CHECK_EQ(encode_uncut(memo, &plain, whole, 1000),
                 size > memo_segment_max ? STATUS_TOO_LARGE : STATUS_OK);
        CHECK_EQ(encode_uncut(memo, &plain, whole, SIZE_MAX), STATUS_OK);
    }
    for (size_t size = memo_whole_max; size <= memo_whole_max + 1; size++) {
        struct slice whole = slice_of(long_text, size);
        CHECK_EQ(encode_uncut(memo, &uncut, whole, 1000),
                 size > memo_whole_max ? STATUS_TOO_LARGE : STATUS_OK);
        CHECK_EQ(encode_uncut(memo, &uncut, whole, SIZE_MAX), STATUS_OK);
    }
    memo_destroy(&memo);
}

TEST(a_text_that_cannot_be_encoded_ends_the_task)
{
    struct rng rng = {.state = 7};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 9000);
    CHECK(encode(memo, slice_of(text, 9000)));
    size_t count = bench.task.count;
    for (size_t capacity = count - 2; capacity <= count; capacity++) {
        bench_begin(&bench, memo, slice_of(text, 9000));
        bench.task.capacity = capacity;
        enum status status = memo_continue(&bench.task, SIZE_MAX);
        CHECK_EQ(status, capacity < count ? STATUS_TOO_LARGE : STATUS_OK);
    }
    text[8000] = 0xff;
    bench_begin(&bench, memo, slice_of(text, 9000));
    CHECK_EQ(memo_continue(&bench.task, SIZE_MAX), STATUS_MALFORMED);
    memo_destroy(&memo);
}

// Names cover all bytes, so a hole does not hide what is behind it.
TEST(a_segment_that_is_too_long_hides_no_other)
{
    struct rng rng = {.state = 8};
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    fill_text(&rng, text, 50000);
    for (size_t i = 10000; i < 30000; i++) {
        text[i] = i % 3 == 0 ? 'a' : ' '; // nowhere a single space: one segment of 6,667 ids
    }
    CHECK(encode(memo, slice_of(text, 50000)));
    CHECK(encode(memo, slice_of(text, 50000)));
    CHECK(bench.scratch.encoded >= 20000 && bench.scratch.encoded < 22000);
    CHECK(!bench.task.is_known);
    memo_destroy(&memo);
}

TEST(nothing_is_forgotten_while_there_is_room)
{
    struct memo *memo = some_memo(1 << 20, 1);
    CHECK(memo != NULL);
    for (unsigned i = 0; i < 300; i++) {
        struct rng rng = {.state = 1000 + i % 150};
        fill_text(&rng, text, 4000);
        CHECK(encode(memo, slice_of(text, 4000)));
        CHECK_EQ(bench.task.is_known, i >= 150);
    }
    memo_destroy(&memo);
}

TEST(entries_in_use_stay_while_others_are_overwritten)
{
    struct rng rng = {.state = 9};
    struct memo *memo = some_memo(64 << 10, 2);
    CHECK(memo != NULL);
    static uint8_t used[6000];
    fill_text(&rng, used, sizeof(used));
    CHECK(encode(memo, slice_of(used, sizeof(used))));
    for (unsigned i = 0; i < 200; i++) {
        fill_text(&rng, text, 4000);
        CHECK(encode(memo, slice_of(text, 4000)));
        bench_begin(&bench, memo, slice_of(used, sizeof(used)));
        bench.task.thread = i % 2;
        CHECK_EQ(memo_continue(&bench.task, SIZE_MAX), STATUS_OK);
        CHECK(is_right(&bench));
        CHECK(bench.task.is_known);
    }
    memo_destroy(&memo);
}

TEST(too_little_memory_is_said_and_little_is_enough)
{
    CHECK(some_memo(0, 1) == NULL);
    CHECK(some_memo(4096, 100) == NULL);
    struct rng rng = {.state = 10};
    struct memo *memo = some_memo(2000, 1);
    CHECK(memo != NULL);
    for (unsigned i = 0; i < 200; i++) {
        size_t size = rng_below(&rng, 5000);
        fill_text(&rng, text, size);
        CHECK(encode(memo, slice_of(text, size)));
    }
    memo_destroy(&memo);
}

TEST(prompts_with_a_common_prefix_are_encoded_as_if_alone)
{
    CHECK(crowd_run(1, 20 << 10, 1000));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 100000);
    CHECK(crowd_run(1, 1 << 20, 1000));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 1000000);
}

TEST(threads_share_encoded_segments)
{
    CHECK(crowd_run(thread_max, 24 << 10, 300));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd_run(thread_max, 1 << 20, 300));
    CHECK_EQ(crowd.wrong, 0);
    CHECK(crowd.known > 900000);
}
