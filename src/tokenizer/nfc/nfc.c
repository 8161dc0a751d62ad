// SPDX-License-Identifier: Apache-2.0
//
// Nearly all text is in normal form.  Other text is changed from one boundary to the next: a
// boundary is a character that stays as it is, whatever is before it.  The stretch between two is
// decomposed, the marks behind each starter are sorted, and pairs are composed, all of it in the
// place of the result:
//
//     text    ......[ o ^ . ]....        o with a circumflex and a dot below
//     buffer  ......[ o . ^ ]            marks in order of their class
//             ......[ ộ ]
//
// Marks are sorted by counting, so a text of marks alone takes no longer than another.

#include "tokenizer/nfc/nfc.h"

#include "base/base.h"
#include "base/utf8.h"
#include "tokenizer/nfc/nfc_internal.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum {
    low_end = 0xcc, // bytes below it make up the characters before U+0300, which stay as they are
    growth_max = 3, // the generator of the tables checks it
    decomposition_max = 4,
    class_count = 256,
    hangul_first = 0xac00,
    hangul_count = 11172,
    lead_first = 0x1100, // Hangul: leading consonants, vowels, trailing consonants
    lead_count = 19,
    vowel_first = 0x1161,
    vowel_count = 21,
    trail_before = 0x11a7, // stands for no trailing consonant
    trail_count = 28,
};

// The end of the bytes below low_end that begin at `at`.
static size_t skip_low(struct slice text, size_t at)
{
#ifdef __SSE2__
    const __m128i most = _mm_set1_epi8((char)(low_end - 1));
    while (text.size - at >= 64) {
        const __m128i *block = (const __m128i *)(const void *)(text.bytes + at);
        __m128i a = _mm_max_epu8(_mm_loadu_si128(block), _mm_loadu_si128(block + 1));
        __m128i b = _mm_max_epu8(_mm_loadu_si128(block + 2), _mm_loadu_si128(block + 3));
        __m128i is_low = _mm_cmpeq_epi8(_mm_max_epu8(_mm_max_epu8(a, b), most), most);
        if (_mm_movemask_epi8(is_low) != 0xffff) {
            break;
        }
        at += 64;
    }
    while (text.size - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(text.bytes + at));
        __m128i is_low = _mm_cmpeq_epi8(_mm_max_epu8(bytes, most), most);
        unsigned high = (unsigned)_mm_movemask_epi8(is_low) ^ 0xffff;
        if (high != 0) {
            return at + (unsigned)__builtin_ctz(high);
        }
        at += 16;
    }
#endif
    while (at < text.size && text.bytes[at] < low_end) {
        at++;
    }
    return at;
}

// The end of the bytes, from `at` on, that begin or continue characters which stay as they are.
// Each byte is looked up by itself, so that no lookup waits for another.
static size_t skip_clean(struct slice text, size_t at)
{
    while (text.size - at >= 8) {
        const uint8_t *bytes = text.bytes + at;
        unsigned clean = 1;
        for (unsigned i = 0; i < 8; i++) {
            clean &= nfc_clean_leads[bytes[i]];
        }
        if (!clean) {
            break;
        }
        at += 8;
    }
    while (at < text.size && nfc_clean_leads[text.bytes[at]]) {
        at++;
    }
    return at;
}

// The table's value for the character at `at`.  A truncated one gets the value of one that may
// change, so that nothing behind the text is read.
static uint16_t nfc_value_at(struct slice text, size_t at)
{
    unsigned size = utf8_size_of_lead(text.bytes[at]);
    return text.size - at < size ? NFC_MAY_COMPOSE : nfc_value(utf8_read(text.bytes + at, &size));
}

static bool is_nfc_boundary(uint16_t value)
{
    return value == 0 || (value & (NFC_DECOMPOSES | NFC_CHANGES)) == NFC_DECOMPOSES;
}

// The first character from a boundary on that may have to change, or the end of the text.
static size_t find_nfc_suspect(struct slice text, size_t at)
{
    unsigned last_class = 0;
    while (at < text.size) {
        uint8_t lead = text.bytes[at];
        if (nfc_clean_leads[lead]) {
            at = lead < low_end ? skip_low(text, at) : skip_clean(text, at);
            last_class = 0;
            continue;
        }
        uint16_t value = nfc_value_at(text, at);
        if (is_nfc_boundary(value)) {
            last_class = 0;
        } else if (value > NFC_CLASS_MASK || value < last_class) {
            return at;
        } else {
            last_class = value;
        }
        at += utf8_size_of_lead(lead);
    }
    return text.size;
}

// The last boundary before `suspect`, or `floor`, which is one or the start of the text.
static size_t boundary_before(struct slice text, size_t floor, size_t suspect)
{
    size_t at = suspect;
    while (at > floor) {
        at = (size_t)(utf8_back(text.bytes, text.bytes + at) - text.bytes);
        if (is_nfc_boundary(nfc_value_at(text, at))) {
            break;
        }
    }
    return at;
}

static size_t boundary_after(struct slice text, size_t suspect)
{
    size_t at = suspect;
    while (at < text.size && !is_nfc_boundary(nfc_value_at(text, at))) {
        at += utf8_size_of_lead(text.bytes[at]);
    }
    return at;
}

// The characters of a text, decomposed.  A copy of the struct goes on from the same place.
struct point_walk {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t parts[decomposition_max]; // of the character before `at`
    unsigned next;
    unsigned count;
};

static unsigned decompose(uint32_t point, uint32_t parts[decomposition_max])
{
    uint32_t syllable = point - hangul_first;
    if (syllable < hangul_count) {
        uint32_t trail = syllable % trail_count;
        parts[0] = lead_first + syllable / (vowel_count * trail_count);
        parts[1] = vowel_first + syllable / trail_count % vowel_count;
        parts[2] = trail_before + trail;
        return trail == 0 ? 2 : 3;
    }
    uint16_t value = nfc_value(point);
    if ((value & NFC_DECOMPOSES) == 0) {
        parts[0] = point;
        return 1;
    }
    unsigned count = (value >> NFC_LENGTH_SHIFT & NFC_LENGTH_MASK) + 1;
    ASSERT(count <= decomposition_max);
    memcpy(parts, nfc_points + (value & NFC_POINT_MASK), count * sizeof(parts[0]));
    return count;
}

static bool points_next(struct point_walk *points, uint32_t *out)
{
    if (points->next == points->count) {
        if (points->at == points->end) {
            return false;
        }
        unsigned size;
        uint32_t point = utf8_read(points->at, &size);
        points->at += size;
        points->next = 0;
        points->count = decompose(point, points->parts);
    }
    *out = points->parts[points->next++];
    return true;
}

static unsigned combining_class(uint32_t point)
{
    return nfc_value(point) & NFC_CLASS_MASK;
}

// The composition of two characters; 0: they do not compose.
static uint32_t compose_pair(uint32_t first, uint32_t second)
{
    if ((nfc_value(second) & NFC_MAY_COMPOSE) == 0) {
        return 0;
    }
    uint32_t syllable = first - hangul_first;
    if (first - lead_first < lead_count && second - vowel_first < vowel_count) {
        uint32_t pair = (first - lead_first) * vowel_count + (second - vowel_first);
        return hangul_first + pair * trail_count;
    }
    if (syllable < hangul_count && syllable % trail_count == 0 &&
        second - (trail_before + 1) < trail_count - 1) {
        return first + (second - trail_before);
    }
    uint64_t pair = (uint64_t)first << 32 | second;
    uint32_t low = 0;
    uint32_t high = nfc_pair_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (nfc_pairs[middle] < pair) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < nfc_pair_count && nfc_pairs[low] == pair ? nfc_wholes[low] : 0;
}

// The marks up to the next starter.
struct mark_run {
    uint32_t count;
    bool is_ordered;
};

static struct mark_run marks_at(struct point_walk points)
{
    struct mark_run marks = {.is_ordered = true};
    unsigned last_class = 0;
    uint32_t point;
    while (points_next(&points, &point)) {
        unsigned class = combining_class(point);
        if (class == 0) {
            break;
        }
        marks.is_ordered = marks.is_ordered && class >= last_class;
        marks.count++;
        last_class = class;
    }
    return marks;
}

// Writes marks as they are.  Returns their size.
static size_t write_marks(struct point_walk *points, uint32_t count, uint8_t *out)
{
    size_t size = 0;
    uint32_t point;
    for (uint32_t i = 0; i < count && points_next(points, &point); i++) {
        size += utf8_write(point, out + size);
    }
    return size;
}

// Writes marks in order of their class; those of one class keep their order.
static size_t write_marks_by_class(struct point_walk *points, uint32_t count, uint8_t *out)
{
    size_t places[class_count] = {0};
    struct point_walk ahead = *points;
    uint32_t point;
    for (uint32_t i = 0; i < count && points_next(&ahead, &point); i++) {
        uint8_t bytes[4];
        places[combining_class(point)] += utf8_write(point, bytes);
    }
    size_t size = 0;
    for (unsigned class = 0; class < class_count; class ++) {
        size_t class_size = places[class];
        places[class] = size;
        size += class_size;
    }
    for (uint32_t i = 0; i < count && points_next(points, &point); i++) {
        size_t *place = &places[combining_class(point)];
        *place += utf8_write(point, out + *place);
    }
    return size;
}

// Composes the starter with its marks, unless a mark of the same class remains before one.  Returns
// the size of the remaining marks, which are moved together.
static size_t compose_marks(uint32_t *starter, uint8_t *marks, size_t size)
{
    size_t kept = 0;
    unsigned last_class = 0;
    unsigned length;
    for (size_t at = 0; at < size; at += length) {
        uint32_t mark = utf8_read(marks + at, &length);
        unsigned class = combining_class(mark);
        uint32_t whole = class > last_class ? compose_pair(*starter, mark) : 0;
        if (whole != 0) {
            *starter = whole;
            continue;
        }
        memmove(marks + kept, marks + at, length);
        kept += length;
        last_class = class;
    }
    return kept;
}

// Normalizes a stretch between two boundaries.  `out` has room for growth_max times its size, which
// is enough for its decomposition; composing makes nothing longer.  Returns the new size.
static size_t normalize_stretch(struct slice stretch, uint8_t *out)
{
    struct point_walk points = {.at = stretch.bytes, .end = stretch.bytes + stretch.size};
    size_t size = 0;
    size_t starter_at = 0;
    uint32_t starter = 0; // composes with nothing
    bool is_open = false; // no mark is behind the starter
    for (;;) {
        struct mark_run marks = marks_at(points);
        uint32_t point;
        if (marks.count > 0) {
            size_t marks_size = (marks.is_ordered ? write_marks : write_marks_by_class)(
                &points, marks.count, out + size);
            uint32_t before = starter;
            size_t kept = compose_marks(&starter, out + size, marks_size);
            if (starter != before) {
                uint8_t bytes[4];
                unsigned length = utf8_write(starter, bytes);
                memmove(out + starter_at + length, out + size, kept);
                memcpy(out + starter_at, bytes, length);
                size = starter_at + length;
            }
            size += kept;
            is_open = is_open && kept == 0;
        } else if (points_next(&points, &point)) {
            uint32_t whole = is_open ? compose_pair(starter, point) : 0;
            starter_at = whole != 0 ? starter_at : size;
            starter = whole != 0 ? whole : point;
            size = starter_at + utf8_write(starter, out + starter_at);
            is_open = true;
        } else {
            return size;
        }
    }
}

size_t nfc_clean_prefix(struct slice text)
{
    size_t suspect = find_nfc_suspect(text, 0);
    ASSERT(suspect <= text.size);
    return suspect == text.size ? text.size : boundary_before(text, 0, suspect);
}

size_t nfc_bound(size_t size)
{
    return growth_max * size;
}

enum status nfc_normalize(struct slice text, void *buffer, size_t capacity, struct slice *out)
{
    uint8_t *bytes = buffer;
    size_t size = 0; // of the result so far
    size_t at = 0;   // in the text
    bool has_changed = false;
    size_t suspect;
    while ((suspect = find_nfc_suspect(text, at)) < text.size) {
        size_t begin = boundary_before(text, at, suspect);
        size_t end = boundary_after(text, suspect);
        struct slice stretch = slice_of(text.bytes + begin, end - begin);
        size_t clean = begin - at;
        if (capacity - size < clean || (capacity - size - clean) / growth_max < stretch.size) {
            return STATUS_TOO_LARGE;
        }
        ASSERT(begin >= at && end > begin);
        size_t now = normalize_stretch(stretch, bytes + size + clean);
        ASSERT(now <= growth_max * stretch.size);
        if (!has_changed && !slice_equal(slice_of(bytes + size + clean, now), stretch)) {
            has_changed = true;
            memcpy(bytes, text.bytes, at);
        }
        // Before the first change the result is the text itself, and the buffer is not written.
        if (has_changed) {
            memcpy(bytes + size, text.bytes + at, clean);
        }
        size += clean + now;
        at = end;
    }
    if (!has_changed) {
        *out = text;
        return STATUS_OK;
    }
    if (capacity - size < text.size - at) {
        return STATUS_TOO_LARGE;
    }
    memcpy(bytes + size, text.bytes + at, text.size - at);
    ASSERT(size + (text.size - at) <= capacity);
    *out = slice_of(bytes, size + text.size - at);
    return STATUS_OK;
}
