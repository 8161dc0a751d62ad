// SPDX-License-Identifier: Apache-2.0
//
// For each of 16 bytes: if an id began here, where would the next one begin?  Shuffling that answer by
// itself tells where the second one begins, and doing it again the fourth; the last of four begins within
// 15 bytes of the first.  An id that is none is followed by itself, so that one question at the end tells
// whether all four were.

#include "base/base.h"
#include "kvevent/msgpack_vector_internal.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define SSSE3 __attribute__((target("ssse3")))

enum { step = 4, window = step * msgpack_id_size };

// From each byte to the id after the one that begins there; to itself where none does.
SSSE3 static inline __m128i next_of(__m128i bytes)
{
    const __m128i places = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    // By the low half of the tags 0xcc, 0xcd and 0xce: that byte and 1, 2 or 4 more.
    const __m128i sizes = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 3, 5, 0);

    __m128i is_fixint = _mm_cmpgt_epi8(bytes, _mm_set1_epi8(-1));
    // Bytes from 0xc0 to 0xcf become 0x70 to 0x7f; all others get their top bit, for which a shuffle has 0.
    __m128i tags =
        _mm_adds_epu8(_mm_xor_si128(bytes, _mm_set1_epi8((char)0xc0)), _mm_set1_epi8(0x70));
    return _mm_add_epi8(_mm_sub_epi8(places, is_fixint), _mm_shuffle_epi8(sizes, tags));
}

SSSE3 static inline uint32_t first_of(__m128i bytes)
{
    return (uint8_t)_mm_cvtsi128_si32(bytes);
}

static inline uint32_t value_of(const uint8_t *end, uint32_t size)
{
    uint32_t word;
    memcpy(&word, end - sizeof(word), sizeof(word));
    return __builtin_bswap32(word) & msgpack_id_masks[size];
}

SSSE3 void msgpack_vector_ids(struct msgpack_id_run *run)
{
    const uint8_t *at = run->at;
    uint32_t *out = run->out;
    uint32_t *last = out + run->count;

    while (last - out >= step && run->end - at >= window) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i one = next_of(bytes);
        __m128i two = _mm_shuffle_epi8(one, one);
        uint32_t fourth = first_of(_mm_shuffle_epi8(two, two));
        uint32_t third = first_of(_mm_shuffle_epi8(two, one));
        uint32_t second = first_of(two);
        uint32_t first = first_of(one);
        if (third == fourth) {
            break;
        }
        out[0] = value_of(at + first, first);
        out[1] = value_of(at + second, second - first);
        out[2] = value_of(at + third, third - second);
        out[3] = value_of(at + fourth, fourth - third);
        out += step;
        at += fourth;
    }
    run->at = at;
    run->out = out;
    run->count = (uint32_t)(last - out);
}

#else

void msgpack_vector_ids(struct msgpack_id_run *run)
{
    msgpack_scalar_ids(run);
}

#endif
