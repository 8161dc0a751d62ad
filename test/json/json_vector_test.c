// SPDX-License-Identifier: Apache-2.0
//
// The vectors against their scalar twin, which json_test.c compares with another twin: every
// error is also put at the seam of two blocks.  Texts end at an unmapped page, so that reading
// one byte too many is a crash.

#include "base/base.h"
#include "base/rng.h"
#include "base/text.h"
#include "json/json_vector_internal.h"
#include "test.h"

#include <string.h>
#include <sys/mman.h>

static const size_t page_size = 4096;

// The end of a page with nothing behind it, or NULL where there are no vectors to test.
static uint8_t *guarded_end(void)
{
    if (!json_vector_is_supported()) {
        return NULL;
    }
    uint8_t *pages =
        mmap(NULL, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT(pages != MAP_FAILED);
    ASSERT(mprotect(pages + page_size, page_size, PROT_NONE) == 0);
    return pages + page_size;
}

static void free_guarded(uint8_t *end)
{
    if (end != NULL) {
        ASSERT(munmap(end - page_size, 2 * page_size) == 0);
    }
}

// Bytes before the string must not matter: they are filled with quotes and the like.
static bool agrees(uint8_t *end, const uint8_t *bytes, size_t size)
{
    uint8_t *begin = end - size;
    memset(begin - 64, '\\', 64);
    memcpy(begin, bytes, size);
    return json_vector_string_end(begin, end) == json_scalar_string_end(begin, end);
}

// The string "x...x" `middle` "x...x", `middle` at `place`; returns its size.
static size_t surround(uint8_t *out, size_t place, const void *middle, size_t middle_size)
{
    memset(out, 'x', place + middle_size + 80);
    memcpy(out + place, middle, middle_size);
    out[place + middle_size + 79] = '"';
    return place + middle_size + 80;
}

// Around every seam of a block and of the halves of one.
static const size_t places[] = {0,  1,  28, 29, 30,  31,  32,  59, 60,
                                61, 62, 63, 64, 124, 125, 126, 127};

TEST(random_strings_end_where_the_twin_says)
{
    static const char alphabet[] =
        "\"\\\\\\ubnf/0aF9gxxxxxxxx "
        "\x1f\x7f\x80\x8f\x90\x9f\xa0\xbf\xc1\xc2\xe0\xed\xef\xf0\xf4\xf5";
    uint8_t *end = guarded_end();
    struct rng rng = {.state = 1};
    uint32_t ended = 0;

    for (int round = 0; end != NULL && round < 200000; round++) {
        uint8_t bytes[300];
        size_t size = rng_below(&rng, sizeof(bytes));
        uint32_t plain = rng_below(&rng, 64); // the share of plain characters, in 64ths
        for (size_t i = 0; i < size; i++) {
            bool special = rng_below(&rng, 64) >= plain;
            bytes[i] = special ? (uint8_t)alphabet[rng_below(&rng, sizeof(alphabet) - 1)] : 'x';
        }
        CHECK(agrees(end, bytes, size));
        ended += json_scalar_string_end(end - size, end) != NULL;
    }
    CHECK(end == NULL || ended > 10000);
    free_guarded(end);
}

// Valid text cut and joined: nearly everything is accepted, and much of it longer than a block.
TEST(valid_pieces_in_any_order_end_where_the_twin_says)
{
    static const char *const pieces[] = {
        "\\n",          "\\\"", "\\\\",  "\\u00e9",      "\\ud83d\\ude00",   "\xc3\xa9",
        "\xe4\xb8\xad", "x",    "word ", "\xed\x9f\xbf", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf",
    };
    uint8_t *end = guarded_end();
    struct rng rng = {.state = 2};
    uint32_t broken = 0;

    for (int round = 0; end != NULL && round < 100000; round++) {
        uint8_t bytes[800];
        struct text text = text_over(bytes, sizeof(bytes));
        for (uint32_t left = rng_below(&rng, 60); left > 0; left--) {
            text_add_str(&text, pieces[rng_below(&rng, ARRAY_COUNT(pieces))]);
        }
        text_add_str(&text, "\"");
        size_t size = text.size;
        if (round % 2 == 0) {
            bytes[rng_below(&rng, (uint32_t)size)] ^= (uint8_t)(1 << rng_below(&rng, 8));
        }
        CHECK(agrees(end, bytes, size));
        bool good = json_vector_string_end(end - size, end) != NULL;
        CHECK(good || round % 2 == 0);
        broken += !good;
    }
    CHECK(end == NULL || broken > 10000);
    free_guarded(end);
}

TEST(every_pair_of_bytes_is_judged_as_the_twin_judges_it)
{
    uint8_t *end = guarded_end();
    uint8_t bytes[300];

    for (uint32_t pair = 0; end != NULL && pair < 0x10000; pair++) {
        uint8_t middle[2] = {(uint8_t)(pair >> 8), (uint8_t)pair};
        size_t place = places[pair % ARRAY_COUNT(places)];
        CHECK(agrees(end, bytes, surround(bytes, place, middle, 2)));
        CHECK(agrees(end, bytes, surround(bytes, 63, middle, 2)));
    }
    free_guarded(end);
}

// All leads and all second bytes, with those third and fourth bytes where something changes.
TEST(characters_of_three_and_four_bytes_are_judged_as_the_twin_judges_them)
{
    static const uint8_t later[] = {'x', 0x7f, 0x80, 0x8f, 0x90, 0xa0, 0xbf, 0xc0, 0xe0, '"'};
    uint8_t *end = guarded_end();
    uint8_t bytes[300];
    uint32_t text_count = end != NULL ? 0x4000 * ARRAY_COUNT(later) * ARRAY_COUNT(later) : 0;

    for (uint32_t i = 0; i < text_count; i++) {
        uint32_t pair = 0xc000 + i % 0x4000;
        uint32_t rest = i / 0x4000;
        uint8_t middle[4] = {(uint8_t)(pair >> 8), (uint8_t)pair, later[rest % ARRAY_COUNT(later)],
                             later[rest / ARRAY_COUNT(later)]};
        size_t place = places[i % ARRAY_COUNT(places)];
        CHECK(agrees(end, bytes, surround(bytes, place, middle, 4)));
    }
    free_guarded(end);
}

TEST(runs_of_backslashes_of_every_length_end_where_the_twin_says)
{
    static const char *const after[] = {"\"", "n", "u0041", "u00", "u004x", "x", "/", "\xc3\xa9"};
    uint8_t *end = guarded_end();

    for (uint32_t i = 0; end != NULL && i < 140 * ARRAY_COUNT(places) * ARRAY_COUNT(after); i++) {
        uint8_t bytes[400];
        uint8_t middle[150];
        size_t length = i % 140;
        size_t place = places[i / 140 % ARRAY_COUNT(places)];
        const char *tail = after[i / 140 / ARRAY_COUNT(places)];
        struct text text = text_over(middle, sizeof(middle));
        for (size_t left = length; left > 0; left--) {
            text_add_str(&text, "\\");
        }
        text_add_str(&text, tail);
        size_t size = surround(bytes, place, middle, text.size);
        CHECK(agrees(end, bytes, size));
        CHECK(agrees(end, bytes, place + text.size)); // the text ends there
    }
    free_guarded(end);
}

TEST(every_byte_of_an_escape_is_judged_as_the_twin_judges_it)
{
    uint8_t *end = guarded_end();
    uint8_t bytes[300];

    for (uint32_t i = 0; end != NULL && i < ARRAY_COUNT(places) * 6 * 256; i++) {
        uint8_t middle[6] = {'\\', 'u', '0', 'a', 'F', '9'};
        middle[i / 256 % 6] = (uint8_t)i;
        size_t place = places[i / 256 / 6];
        CHECK(agrees(end, bytes, surround(bytes, place, middle, sizeof(middle))));
    }
    free_guarded(end);
}

// One element after the comma at `at`, as json_vector_ids_end wants them: the next comma, or `at`.
static const uint8_t *twin_id_end(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *begin = at + 1;
    if (begin < end && *begin == ' ') {
        begin++;
    }
    const uint8_t *after = begin;
    while (after < end && *after >= '0' && *after <= '9') {
        after++;
    }
    size_t size = (size_t)(after - begin);
    bool good = size >= 1 && size <= 9 && (size == 1 || *begin != '0');
    return good && after < end && *after == ',' ? after : at;
}

// The vectors stop at a comma that the twin reaches after as many elements, and not before they
// must.
static bool ids_agree(const uint8_t *begin, const uint8_t *end)
{
    uint64_t count = 0;
    const uint8_t *stop = json_vector_ids_end(begin, end, &count);
    const uint8_t *at = begin;

    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *next = twin_id_end(at, end);
        if (next == at) {
            return false;
        }
        at = next;
    }
    return at == stop && (end - at < 64 || twin_id_end(at, end) == at);
}

TEST(ids_are_passed_over_as_far_as_the_twin_passes_over_them)
{
    static const char *const strange[] = {
        ",",   " ", "  ", "01",         "00", ", ,", "-1", "1.5",
        "1e3", "]", "}",  "1234567890", " 1", "\n",  "x",
    };
    uint8_t *end = guarded_end();
    struct rng rng = {.state = 3};
    uint64_t passed = 0;

    for (int round = 0; end != NULL && round < 100000; round++) {
        uint8_t bytes[800];
        struct text text = text_over(bytes, sizeof(bytes));
        uint32_t strange_at = round % 3 == 0 ? rng_below(&rng, 50) : 50;
        for (uint32_t left = rng_below(&rng, 50); left > 0; left--) {
            static const uint32_t bounds[] = {1, 10, 100, 150000, 1000000000};
            bool spaced = round % 4 == 1 || (round % 4 == 2 && left % 2 == 0);
            text_add_str(&text, spaced ? ", " : ",");
            if (left == strange_at) {
                text_add_str(&text, strange[rng_below(&rng, ARRAY_COUNT(strange))]);
            }
            text_add_u64(&text, rng_below(&rng, bounds[rng_below(&rng, ARRAY_COUNT(bounds))]));
        }
        text_add_str(&text, ",");
        size_t size = text.size;
        memcpy(end - size, bytes, size);
        CHECK(ids_agree(end - size, end));
        json_vector_ids_end(end - size, end, &passed);
    }
    CHECK(end == NULL || passed > 1000000);
    free_guarded(end);
}
