// SPDX-License-Identifier: Apache-2.0
//
// For each byte: if an id began here, where would the next one begin?  Shuffling that result by
// itself shows where the second one begins.  Neither waits for the other, so both are computed
// for a whole stretch of bytes first.  Then a walk goes from every second id to the next, and
// waits for one byte each time.
//
// A byte that begins no id is followed by itself, so that one comparison shows whether both were
// ids.

#include "base/base.h"
#include "kvevent/msgpack_vector_internal.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define SSSE3 __attribute__((target("ssse3")))

enum {
    step = 2, // ids
    window = 16,
    sure = window - msgpack_id_size, // of its bytes: the next id begins in the window too
    stretch_max = 32 * sure,
    beyond = step * msgpack_id_size - 1, // bytes that ids can go on behind a stretch
};

// For each byte of a stretch: how far it is to the first and to the second id behind one that
// begins here.
struct leaps {
    uint8_t one[stretch_max + window];
    uint8_t two[stretch_max + window];
};

SSSE3 static inline __m128i places(void)
{
    return _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

// From each byte to the id after the one that begins there; to itself where no id begins.
SSSE3 static inline __m128i next_of(__m128i bytes)
{
    // By the low half of the tags 0xcc, 0xcd and 0xce: that byte and 1, 2 or 4 more.
    const __m128i sizes = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 5, 0);

    __m128i is_fixint = _mm_cmpgt_epi8(bytes, _mm_set1_epi8(-1));
    // Bytes 0xc0 to 0xcf become 0x70 to 0x7f; others get their top bit, for which a shuffle gives
    // 0.
    __m128i tags =
        _mm_adds_epu8(_mm_xor_si128(bytes, _mm_set1_epi8((char)0xc0)), _mm_set1_epi8(0x70));
    return _mm_add_epi8(_mm_sub_epi8(places(), is_fixint), _mm_shuffle_epi8(sizes, tags));
}

SSSE3 static inline void put_leaps(uint8_t *out, __m128i next)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm_sub_epi8(next, places()));
}

// The next window overwrites the uncertain bytes at the end of this one.
SSSE3 static inline void look_ids_ahead(const uint8_t *at, uint32_t size, struct leaps *leaps)
{
    for (uint32_t i = 0; i < size; i += sure) {
        __m128i one = next_of(_mm_loadu_si128((const __m128i *)(const void *)(at + i)));
        put_leaps(leaps->one + i, one);
        put_leaps(leaps->two + i, _mm_shuffle_epi8(one, one));
    }
}

static inline uint32_t id_value(const uint8_t *end, uint32_t size)
{
    uint32_t word;
    memcpy(&word, end - sizeof(word), sizeof(word));
    return __builtin_bswap32(word) & msgpack_id_masks[size];
}

// False: it stopped at a value that is not an id.
static inline bool walk_ids(struct msgpack_id_run *run, uint32_t size, const struct leaps *leaps)
{
    const uint8_t *begin = run->at;
    uint32_t *out = run->out;
    uint32_t *last = out + run->count;
    uint32_t at = 0;
    bool is_id = true;

    while (at < size && last - out >= step) {
        uint32_t one = leaps->one[at];
        uint32_t two = leaps->two[at];
        is_id = one != two;
        if (!is_id) {
            break;
        }
        out[0] = id_value(begin + at + one, one);
        out[1] = id_value(begin + at + two, two - one);
        out += step;
        at += two;
    }
    run->at = begin + at;
    run->out = out;
    run->count = (uint32_t)(last - out);
    return is_id;
}

// How many bytes the next stretch has; 0: there are too few left.
static inline uint32_t stretch_of(const struct msgpack_id_run *run)
{
    ASSERT_SLOW(run->at <= run->end);
    size_t left = (size_t)(run->end - run->at);
    size_t readable = left > beyond ? (left - beyond) / sure : 0;
    // Ids have hardly three bytes each; if these have more, another stretch follows.
    size_t wanted = run->count < step ? 0 : (size_t)run->count / 4 + 1;
    size_t windows = readable < wanted ? readable : wanted;
    return windows * sure < stretch_max ? (uint32_t)windows * sure : stretch_max;
}

SSSE3 void msgpack_vector_ids(struct msgpack_id_run *run)
{
    struct leaps leaps;
    uint32_t size;
    do {
        size = stretch_of(run);
        look_ids_ahead(run->at, size, &leaps);
    } while (walk_ids(run, size, &leaps) && size > 0);
}

#else

void msgpack_vector_ids(struct msgpack_id_run *run)
{
    msgpack_scalar_ids(run);
}

#endif
