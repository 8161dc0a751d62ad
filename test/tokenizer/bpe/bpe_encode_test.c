// SPDX-License-Identifier: Apache-2.0

#include "test.h"
#include "tokenizer/bpe/bpe_fixture.h"
#include "tokenizer/bpe/bpe_internal.h"
#include "tokenizer/tokenizer.h"

#include <sys/mman.h>
#include <unistd.h>

enum { text_max = 3000 };

static uint8_t text_bytes[text_max];
static uint32_t expected[text_max + 1];
static uint32_t ids[text_max + 1];

// Pieces of about `odds` characters.
static struct bpe_pieces draw(struct rng *rng, uint32_t kinds, uint32_t odds, uint32_t *ends)
{
    struct slice text = any_text(rng, kinds, text_bytes, text_max);
    uint32_t count = 0;
    for (uint32_t i = 1; i <= text.size; i++) {
        if (i == text.size || ((text.bytes[i] & 0xc0) != 0x80 && rng_below(rng, odds) == 0)) {
            ends[count++] = i;
        }
    }
    return (struct bpe_pieces){.text = text, .ends = ends, .count = count};
}

static bool is_expected(size_t wanted, size_t count)
{
    return wanted == count && memcmp(ids, expected, count * sizeof(ids[0])) == 0;
}

// Whether cuts and caches change nothing for this vocabulary and some texts.
static bool is_unchanged(struct vocab *vocab, struct rng *rng, uint32_t kinds)
{
    static uint32_t ends[text_max];
    struct bpe *bpe = bpe_create(&vocab->options);
    struct bpe *uncut = bpe_create(&vocab->options);
    uncut->cuts.is_off = true;
    struct bpe_scratch *usual = bpe_scratch_create(bpe);
    struct bpe_scratch *tiny = bpe_scratch_create_sized(
        bpe, &(struct word_cache_options){.set_count = 1, .phrase_set_count = 1});
    struct bpe_scratch *plain = bpe_scratch_create(uncut);
    bool is_same = true;
    for (uint32_t i = 0; i < 4; i++) {
        struct bpe_pieces pieces = draw(rng, kinds, 1 + rng_below(rng, 60), ends);
        pieces.extra_space = vocab->options.by_character && i % 2 == 0;
        size_t wanted = bpe_encode(uncut, plain, &pieces, expected);
        // Cold, warm, and hardly able to remember.
        is_same = is_same && is_expected(wanted, bpe_encode(bpe, usual, &pieces, ids)) &&
                  is_expected(wanted, bpe_encode(bpe, usual, &pieces, ids)) &&
                  is_expected(wanted, bpe_encode(bpe, tiny, &pieces, ids));
    }
    bpe_scratch_destroy(&usual);
    bpe_scratch_destroy(&tiny);
    bpe_scratch_destroy(&plain);
    bpe_destroy(&bpe);
    bpe_destroy(&uncut);
    return is_same;
}

TEST(cuts_and_caches_of_any_size_change_nothing)
{
    struct rng rng = {.state = 5};
    for (uint32_t round = 0; round < 80; round++) {
        uint32_t kinds = 1 + rng_below(&rng, character_kinds);
        struct vocab *vocab = any_vocab(&rng, kinds);
        CHECK(is_unchanged(vocab, &rng, kinds));
        free(vocab);
    }
}

TEST(pieces_may_begin_anywhere_and_come_in_any_portions)
{
    struct rng rng = {.state = 6};
    static uint32_t ends[text_max];
    struct vocab *vocab = any_vocab(&rng, character_kinds);
    struct bpe *bpe = bpe_create(&vocab->options);
    struct bpe_scratch *scratch = bpe_scratch_create(bpe);
    for (uint32_t round = 0; round < 50; round++) {
        struct bpe_pieces pieces = draw(&rng, character_kinds, 1 + rng_below(&rng, 30), ends);
        size_t wanted = bpe_encode(bpe, scratch, &pieces, expected);
        size_t count = 0;
        uint32_t begin = 0;
        for (uint32_t at = 0; at < pieces.count;) {
            uint32_t some = 1 + rng_below(&rng, pieces.count - at);
            struct bpe_pieces portion = {
                .text = pieces.text, .begin = begin, .ends = ends + at, .count = some};
            count += bpe_encode(bpe, scratch, &portion, ids + count);
            at += some;
            begin = ends[at - 1];
        }
        CHECK(is_expected(wanted, count));
    }
    bpe_scratch_destroy(&scratch);
    bpe_destroy(&bpe);
    free(vocab);
}

// Memory of `size` bytes before a page that must not be touched.
static void *guarded(size_t size, void **pages, size_t *pages_size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *pages_size = (size + page - 1) / page * page + page;
    *pages = mmap(NULL, *pages_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(*pages != MAP_FAILED);
    ASSERT(mprotect((char *)*pages + *pages_size - page, page, PROT_NONE) == 0);
    return (char *)*pages + *pages_size - page - size;
}

TEST(nothing_is_read_behind_the_text_or_written_behind_the_ids)
{
    struct rng rng = {.state = 7};
    static uint32_t ends[text_max];
    for (uint32_t round = 0; round < 80; round++) {
        struct vocab *vocab = any_vocab(&rng, character_kinds);
        struct bpe *bpe = bpe_create(&vocab->options);
        struct bpe_scratch *scratch = bpe_scratch_create(bpe);
        struct bpe_pieces pieces = draw(&rng, character_kinds, 1 + rng_below(&rng, 20), ends);
        pieces.text.size = pieces.text.size % 100;
        while (pieces.count > 0 && ends[pieces.count - 1] > pieces.text.size) {
            pieces.count--;
        }
        pieces.text.size = pieces.count > 0 ? ends[pieces.count - 1] : 0;
        size_t wanted = bpe_encode(bpe, scratch, &pieces, expected);

        void *text_pages;
        void *id_pages;
        size_t text_pages_size;
        size_t id_pages_size;
        uint8_t *text = guarded(pieces.text.size, &text_pages, &text_pages_size);
        uint32_t *room = guarded(pieces.text.size * sizeof(uint32_t), &id_pages, &id_pages_size);
        memcpy(text, pieces.text.bytes, pieces.text.size);
        pieces.text.bytes = text;
        CHECK_EQ(bpe_encode(bpe, scratch, &pieces, room), wanted);
        CHECK(memcmp(room, expected, wanted * sizeof(room[0])) == 0);
        munmap(text_pages, text_pages_size);
        munmap(id_pages, id_pages_size);
        bpe_scratch_destroy(&scratch);
        bpe_destroy(&bpe);
        free(vocab);
    }
}

// Letters, their doubles, the doubles of these and so on, in a list that is not in that order.
static struct vocab *doubling_vocab(void)
{
    struct vocab *vocab = vocab_create();
    vocab_add_bytes(vocab);
    vocab_merge(vocab, "a", "a");
    vocab_merge(vocab, "aa", "aa");
    vocab_merge(vocab, "aaaa", "aaaa");
    vocab_merge(vocab, "aa", "a");
    return vocab;
}

TEST(the_longest_piece_is_merged_like_a_short_one)
{
    struct vocab *vocab = doubling_vocab();
    struct bpe *bpe = bpe_create(&vocab->options);
    struct bpe_scratch *scratch = bpe_scratch_create(bpe);
    static uint8_t text[tokenizer_piece_max];
    static uint32_t long_ids[tokenizer_piece_max];
    memset(text, 'a', sizeof(text));
    uint32_t end = tokenizer_piece_max;
    struct bpe_pieces pieces = {.text = slice_of(text, end), .ends = &end, .count = 1};
    CHECK_EQ(bpe_encode(bpe, scratch, &pieces, long_ids), tokenizer_piece_max / 8);
    for (uint32_t i = 0; i < tokenizer_piece_max / 8; i++) {
        CHECK(slice_is(vocab->tokens[long_ids[i]], "aaaaaaaa"));
    }
    bpe_scratch_destroy(&scratch);
    bpe_destroy(&bpe);
    free(vocab);
}
