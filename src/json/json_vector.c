// SPDX-License-Identifier: Apache-2.0
//
// 64 bytes become masks of 64 bits, one for each property of a byte, the first byte in the lowest
// bit.  Rules about neighbours are shifts of masks; a carry holds what the rules need of the 64
// bytes before.

#include "base/base.h"
#include "json/json_vector_internal.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,popcnt")))

enum { block_size = 64 };

struct vector_block {
    __m256i low; // the first 32 bytes
    __m256i high;
};

// State that a block leaves to the next one.
struct carry {
    uint64_t escaped; // bit 0: the first byte follows a backslash
    uint64_t hex;     // the first bytes that must be hexadecimal digits
    bool character;   // the last byte is not ASCII: its character may go on
    __m256i high;
};

AVX2 static inline struct vector_block block_load(const uint8_t *at)
{
    return (struct vector_block){
        .low = _mm256_loadu_si256((const __m256i *)(const void *)at),
        .high = _mm256_loadu_si256((const __m256i *)(const void *)(at + 32)),
    };
}

// The top bits of the bytes.
AVX2 static inline uint64_t mask_of(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

AVX2 static inline uint64_t mask_equal(struct vector_block block, char byte)
{
    __m256i wanted = _mm256_set1_epi8(byte);
    return mask_of(_mm256_cmpeq_epi8(block.low, wanted), _mm256_cmpeq_epi8(block.high, wanted));
}

AVX2 static inline uint64_t mask_up_to(struct vector_block block, uint8_t last)
{
    __m256i most = _mm256_set1_epi8((char)last);
    return mask_of(_mm256_cmpeq_epi8(_mm256_min_epu8(block.low, most), block.low),
                   _mm256_cmpeq_epi8(_mm256_min_epu8(block.high, most), block.high));
}

// table[index], byte by byte, for each half of a vector; the indices are below 16.
AVX2 static inline __m256i vector_look_up(const uint8_t table[16], __m256i index)
{
    __m128i half = _mm_loadu_si128((const __m128i *)(const void *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(half), index);
}

AVX2 static inline __m256i low_nibbles(__m256i bytes)
{
    return _mm256_and_si256(bytes, _mm256_set1_epi8(0x0f));
}

AVX2 static inline __m256i high_nibbles(__m256i bytes)
{
    return low_nibbles(_mm256_srli_epi16(bytes, 4));
}

// Which bytes are escapes after a backslash, and which are hexadecimal digits: a byte belongs to
// the classes that both of its halves allow.
enum {
    CLASS_2X = 1,      // " /
    CLASS_5X = 2,      // the backslash
    CLASS_6X = 4,      // b f n
    CLASS_7X = 8,      // r t u
    CLASS_DIGIT = 16,  // 0 to 9
    CLASS_A_TO_F = 32, // in either case
    ESCAPES = CLASS_2X | CLASS_5X | CLASS_6X | CLASS_7X,
    HEXADECIMAL = CLASS_DIGIT | CLASS_A_TO_F,
};
static const uint8_t classes_by_low[16] = {
    [0x0] = CLASS_DIGIT,
    [0x1] = HEXADECIMAL,
    [0x2] = HEXADECIMAL | CLASS_2X | CLASS_6X | CLASS_7X,
    [0x3] = HEXADECIMAL,
    [0x4] = HEXADECIMAL | CLASS_7X,
    [0x5] = HEXADECIMAL | CLASS_7X,
    [0x6] = HEXADECIMAL | CLASS_6X,
    [0x7] = CLASS_DIGIT,
    [0x8] = CLASS_DIGIT,
    [0x9] = CLASS_DIGIT,
    [0xc] = CLASS_5X,
    [0xe] = CLASS_6X,
    [0xf] = CLASS_2X,
};
static const uint8_t classes_by_high[16] = {
    [0x2] = CLASS_2X,
    [0x3] = CLASS_DIGIT,
    [0x4] = CLASS_A_TO_F,
    [0x5] = CLASS_5X,
    [0x6] = CLASS_6X | CLASS_A_TO_F,
    [0x7] = CLASS_7X,
};

AVX2 static inline __m256i classify(__m256i bytes)
{
    return _mm256_and_si256(vector_look_up(classes_by_low, low_nibbles(bytes)),
                            vector_look_up(classes_by_high, high_nibbles(bytes)));
}

AVX2 static inline uint64_t mask_class(struct vector_block classes, char wanted)
{
    __m256i bits = _mm256_set1_epi8(wanted);
    __m256i none = _mm256_setzero_si256();
    return mask_of(_mm256_cmpgt_epi8(_mm256_and_si256(classes.low, bits), none),
                   _mm256_cmpgt_epi8(_mm256_and_si256(classes.high, bits), none));
}

// The bytes that follow an odd number of backslashes.  Adding to a run of ones its first bit
// leaves a single one behind its end; whether both are at even places shows whether the length is
// even.  Backslashes of a run that are escaped themselves are not marked.
static inline uint64_t escaped_bytes(uint64_t backslashes, struct carry *carry)
{
    const uint64_t even = 0x5555555555555555;

    uint64_t escaped = carry->escaped;
    backslashes &= ~escaped;
    uint64_t begins = backslashes & ~(backslashes << 1);
    uint64_t after_even = (backslashes + (begins & even)) & ~backslashes;
    uint64_t after_odd = (backslashes + (begins & ~even)) & ~backslashes;
    escaped |= (after_even & ~even) | (after_odd & even);
    // A run up to the last byte is of odd length or not; one of all 64 is not.
    carry->escaped = ~backslashes != 0 ? __builtin_clzll(~backslashes) & 1 : 0;
    return escaped;
}

// Errors in the escapes.
AVX2 static inline uint64_t escape_errors(struct vector_block block, uint64_t escaped,
                                          struct carry *carry)
{
    struct vector_block classes = {.low = classify(block.low), .high = classify(block.high)};
    uint64_t errors = escaped & ~mask_class(classes, ESCAPES);
    uint64_t u = escaped & mask_equal(block, 'u');

    if ((u | carry->hex) != 0) {
        uint64_t hex = u << 1 | u << 2 | u << 3 | u << 4 | carry->hex;
        errors |= hex & ~mask_class(classes, HEXADECIMAL);
        carry->hex = u >> 63 | u >> 62 | u >> 61 | u >> 60;
    }
    return errors;
}

// Errors in two consecutive bytes, at least one of them beyond ASCII.  Every violation of RFC
// 3629 shows in the halves of the first byte and the upper half of the second.  The third and
// fourth byte of a character are checked apart.  The method is from Keiser and Lemire,
// "Validating UTF-8 in less than one instruction per byte" (2021).
enum {
    TOO_SHORT = 1,   // a lead, and no continuation
    TOO_LONG = 2,    // ASCII, and a continuation
    OVERLONG_3 = 4,  // e0, and below a0
    TOO_LARGE = 8,   // f4, and from 90 up; f5 and above
    SURROGATE = 16,  // ed, and from a0 up
    OVERLONG_2 = 32, // c0 or c1
    OVERLONG_4 = 64, // f0, and below 90; f5 and above too, whose continuations may be below 90
    CONTINUED = 128, // two continuations: right when a character has more than two bytes
    ANY_LOW = TOO_SHORT | TOO_LONG | CONTINUED,
    ABOVE_F4 = ANY_LOW | TOO_LARGE | OVERLONG_4,
};
static const uint8_t first_high[16] = {
    [0x0 ... 0x7] = TOO_LONG,
    [0x8 ... 0xb] = CONTINUED,
    [0xc] = TOO_SHORT | OVERLONG_2,
    [0xd] = TOO_SHORT,
    [0xe] = TOO_SHORT | OVERLONG_3 | SURROGATE,
    [0xf] = TOO_SHORT | TOO_LARGE | OVERLONG_4,
};
static const uint8_t first_low[16] = {
    [0x0] = ANY_LOW | OVERLONG_2 | OVERLONG_3 | OVERLONG_4,
    [0x1] = ANY_LOW | OVERLONG_2,
    [0x2 ... 0x3] = ANY_LOW,
    [0x4] = ANY_LOW | TOO_LARGE,
    [0x5 ... 0xc] = ABOVE_F4,
    [0xd] = ABOVE_F4 | SURROGATE,
    [0xe ... 0xf] = ABOVE_F4,
};
static const uint8_t second_high[16] = {
    [0x0 ... 0x7] = TOO_SHORT,
    [0x8] = TOO_LONG | CONTINUED | OVERLONG_2 | OVERLONG_3 | OVERLONG_4,
    [0x9] = TOO_LONG | CONTINUED | OVERLONG_2 | OVERLONG_3 | TOO_LARGE,
    [0xa ... 0xb] = TOO_LONG | CONTINUED | OVERLONG_2 | SURROGATE | TOO_LARGE,
    [0xc ... 0xf] = TOO_SHORT,
};

// Bytes are zero where the text is valid; `before` are the 32 bytes before `bytes`.
AVX2 static inline __m256i character_errors(__m256i bytes, __m256i before)
{
    __m256i joint = _mm256_permute2x128_si256(before, bytes, 0x21);
    __m256i back_1 = _mm256_alignr_epi8(bytes, joint, 15);
    __m256i back_2 = _mm256_alignr_epi8(bytes, joint, 14);
    __m256i back_3 = _mm256_alignr_epi8(bytes, joint, 13);
    __m256i pair =
        _mm256_and_si256(_mm256_and_si256(vector_look_up(first_high, high_nibbles(back_1)),
                                          vector_look_up(first_low, low_nibbles(back_1))),
                         vector_look_up(second_high, high_nibbles(bytes)));
    // The top bit is set from e0 up two bytes before, and from f0 up three bytes before.
    __m256i third = _mm256_subs_epu8(back_2, _mm256_set1_epi8(0xe0 - 0x80));
    __m256i fourth = _mm256_subs_epu8(back_3, _mm256_set1_epi8(0xf0 - 0x80));
    __m256i continued =
        _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8((char)CONTINUED));
    return _mm256_xor_si256(continued, pair);
}

AVX2 static inline uint64_t block_character_errors(struct vector_block block, __m256i before)
{
    __m256i none = _mm256_setzero_si256();
    __m256i low = character_errors(block.low, before);
    __m256i high = character_errors(block.high, block.low);
    return ~mask_of(_mm256_cmpeq_epi8(low, none), _mm256_cmpeq_epi8(high, none));
}

// Whether all are ASCII less quote, backslash and control characters.
AVX2 static inline bool block_is_plain(struct vector_block block)
{
    const __m256i quote = _mm256_set1_epi8('"');
    const __m256i backslash = _mm256_set1_epi8('\\');
    const __m256i space = _mm256_set1_epi8(' ');

    // As signed numbers, bytes from 0x80 up are below the space too.
    __m256i small = _mm256_cmpgt_epi8(space, _mm256_min_epi8(block.low, block.high));
    __m256i quotes =
        _mm256_or_si256(_mm256_cmpeq_epi8(block.low, quote), _mm256_cmpeq_epi8(block.high, quote));
    __m256i backslashes = _mm256_or_si256(_mm256_cmpeq_epi8(block.low, backslash),
                                          _mm256_cmpeq_epi8(block.high, backslash));
    __m256i special = _mm256_or_si256(small, _mm256_or_si256(quotes, backslashes));
    return _mm256_testz_si256(special, special) != 0;
}

AVX2 const uint8_t *json_vector_string_end(const uint8_t *at, const uint8_t *end)
{
    struct carry carry = {.high = _mm256_setzero_si256()};

    for (;; at += block_size) {
        uint8_t tail[block_size];
        const uint8_t *bytes = at;
        if (end - at < block_size) {
            // Zeros behind the last byte are control characters: this is the last block.
            memset(tail, 0, sizeof(tail));
            memcpy(tail, at, (size_t)(end - at));
            bytes = tail;
        }
        struct vector_block block = block_load(bytes);
        if ((carry.escaped | carry.hex) == 0 && !carry.character && block_is_plain(block)) {
            continue;
        }
        uint64_t quotes = mask_equal(block, '"');
        uint64_t backslashes = mask_equal(block, '\\');
        uint64_t beyond_ascii = mask_of(block.low, block.high);
        uint64_t errors = mask_up_to(block, 0x1f);
        if ((backslashes | carry.escaped | carry.hex) != 0) {
            uint64_t escaped = escaped_bytes(backslashes, &carry);
            errors |= escape_errors(block, escaped, &carry);
            quotes &= ~escaped;
        }
        if (beyond_ascii != 0 || carry.character) {
            errors |= block_character_errors(block, carry.high);
        }
        if (quotes != 0) {
            // A character or escape that the quote cuts short has its error at the quote.
            uint64_t string = quotes ^ (quotes - 1);
            return (errors & string) == 0 ? at + __builtin_ctzll(quotes) + 1 : NULL;
        }
        if (errors != 0) {
            return NULL;
        }
        carry.character = beyond_ascii >> (block_size - 1) != 0;
        carry.high = block.high;
    }
}

// The elements behind the comma at bit 0 that are ids: returns the comma after the last of them,
// as a mask of that bit and all below.  0: no element is an id.
AVX2 static inline uint64_t ids_in(struct vector_block block, uint64_t *commas)
{
    __m256i zero = _mm256_set1_epi8('0');
    struct vector_block values = {.low = _mm256_sub_epi8(block.low, zero),
                                  .high = _mm256_sub_epi8(block.high, zero)};
    uint64_t digits = mask_up_to(values, 9);
    uint64_t zeros = mask_equal(block, '0');
    uint64_t spaces = mask_equal(block, ' ');
    *commas = mask_equal(block, ',');

    uint64_t begins = digits & ~(digits << 1);
    uint64_t pairs = digits & digits >> 1;
    uint64_t fours = pairs & pairs >> 2;
    uint64_t tens = fours & fours >> 4 & pairs >> 8;
    uint64_t after_comma = *commas << 1;
    uint64_t wrong = ~(digits | spaces | *commas)     // something else
                     | (after_comma & *commas)        // no element
                     | (spaces & ~after_comma)        // a space elsewhere, or a second one
                     | (spaces << 1 & ~digits)        // a space, and no number
                     | (zeros & begins & digits >> 1) // a zero before other digits
                     | tens;                          // too many digits
    uint64_t good = wrong != 0 ? (wrong & -wrong) - 1 : UINT64_MAX;
    uint64_t ends = *commas & good & ~(uint64_t)1;
    if (ends == 0) {
        return 0;
    }
    return UINT64_MAX >> __builtin_clzll(ends);
}

AVX2 const uint8_t *json_vector_ids_end(const uint8_t *at, const uint8_t *end, uint64_t *count)
{
    while (end - at >= block_size) {
        uint64_t commas;
        uint64_t passed = ids_in(block_load(at), &commas);
        if (passed == 0) {
            break;
        }
        *count += (uint64_t)__builtin_popcountll(commas & passed) - 1;
        at += block_size - 1 - __builtin_clzll(passed);
    }
    return at;
}

#else

const uint8_t *json_vector_string_end(const uint8_t *at, const uint8_t *end)
{
    (void)at;
    (void)end;
    ASSERT(json_vector_is_supported());
    return NULL;
}

const uint8_t *json_vector_ids_end(const uint8_t *at, const uint8_t *end, uint64_t *count)
{
    (void)end;
    (void)count;
    ASSERT(json_vector_is_supported());
    return at;
}

#endif
