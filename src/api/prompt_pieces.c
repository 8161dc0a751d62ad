// SPDX-License-Identifier: Apache-2.0
//
// Long text is hashed where it lies.  Short text, and text with escapes, is gathered in a small
// buffer first: messages with code have an escape every ten bytes.

#include "api/prompt.h"
#include "api/prompt_internal.h"
#include "base/base.h"
#include "base/hash.h"
#include "base/utf8.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

enum encoding { AS_STRING, AS_IS, AS_HASH, AS_TOKENS };

// The form of a piece in the chain.
static const struct {
    enum prompt_mark before;
    enum prompt_mark after;
    enum encoding encoding;
} shapes[] = {
    [PIECE_TEXT] = {MARK_NONE, MARK_NONE, AS_STRING},
    [PIECE_JSON] = {MARK_NONE, MARK_NONE, AS_IS},
    [PIECE_TOOLS] = {MARK_TOOLS, MARK_NONE, AS_IS},
    [PIECE_TURN] = {MARK_TURN, MARK_CONTENT, AS_STRING},
    [PIECE_CALL] = {MARK_CALL, MARK_ARGUMENTS, AS_STRING},
    [PIECE_RESULT] = {MARK_RESULT, MARK_CONTENT, AS_STRING},
    [PIECE_RESULT_END] = {MARK_CONTENT, MARK_NONE, AS_IS},
    [PIECE_ID] = {MARK_ID, MARK_NONE, AS_STRING},
    [PIECE_NAME] = {MARK_NAME, MARK_NONE, AS_STRING},
    [PIECE_MEDIA] = {MARK_MEDIA, MARK_NONE, AS_HASH},
    [PIECE_TOKENS] = {MARK_NONE, MARK_NONE, AS_TOKENS},
};

static const uint8_t *find_backslash(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *found = at < end ? memchr(at, '\\', (size_t)(end - at)) : NULL;
    return found != NULL ? found : end;
}

// Four hexadecimal digits, which the scanner has seen.
static uint32_t unit_at(const uint8_t *at)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        // '0' to '9' end in 0 to 9, 'A' and 'a' in 1, and only letters have bit 6.
        uint32_t digit = (at[i] & 15u) + 9u * (at[i] >> 6);
        unit = unit << 4 | digit;
    }
    return unit;
}

// Reads one escape and writes what it stands for, at most six bytes; half a surrogate pair, which
// no UTF-8 can stand for, stays as it is written.  Returns how many bytes were read.
static size_t unescape(const uint8_t *at, const uint8_t *end, uint8_t *out, size_t *out_size)
{
    static const uint8_t meaning[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    size_t left = (size_t)(end - at);

    if (left < 6 || at[1] != 'u') {
        out[0] = left > 1 ? meaning[at[1]] : '\\';
        *out_size = 1;
        return left > 1 ? 2 : 1;
    }
    uint32_t character = unit_at(at + 2);
    if (character < 0xd800 || character > 0xdfff) {
        *out_size = utf8_write(character, out);
        return 6;
    }
    bool pair = character < 0xdc00 && left >= 12 && at[6] == '\\' && at[7] == 'u';
    uint32_t low = pair ? unit_at(at + 8) : 0;
    if (low < 0xdc00 || low > 0xdfff) {
        memcpy(out, at, 6);
        *out_size = 6;
        return 6;
    }
    *out_size = utf8_write(0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00), out);
    return 12;
}

// Passes over text in which no escape is but one of two bytes that are not both backslashes, and
// counts these.
static const uint8_t *count_short_escapes(const uint8_t *at, const uint8_t *end, uint64_t *count)
{
#ifdef __SSE2__
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i letter_u = _mm_set1_epi8('u');
    __m128i sums = _mm_setzero_si128(); // of each byte, no more than 255

    for (int i = 0; i < 255 && end - at > 16; i++, at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)(at + 1));
        __m128i found = _mm_cmpeq_epi8(bytes, backslash);
        __m128i other = _mm_and_si128(
            found, _mm_or_si128(_mm_cmpeq_epi8(next, backslash), _mm_cmpeq_epi8(next, letter_u)));
        if (_mm_movemask_epi8(other) != 0) {
            break;
        }
        sums = _mm_sub_epi8(sums, found);
    }
    __m128i halves = _mm_sad_epu8(sums, _mm_setzero_si128());
    *count += (uint64_t)_mm_cvtsi128_si32(halves) + (uint64_t)_mm_extract_epi16(halves, 4);
#else
    (void)end;
    (void)count;
#endif
    return at;
}

static uint64_t string_size(struct slice raw)
{
    const uint8_t *end = raw.size > 0 ? raw.bytes + raw.size : raw.bytes;
    const uint8_t *at = find_backslash(raw.bytes, end);
    uint64_t saved = 0;

    while (at < end) {
        uint8_t scratch[6];
        size_t written = 0;
        // The last 16 bytes may begin with the rest of the last escape, which is not a backslash.
        at = count_short_escapes(at, end, &saved);
        at = find_backslash(at, end);
        while (at < end && *at == '\\') {
            size_t read = unescape(at, end, scratch, &written);
            saved += read - written;
            at += read;
        }
    }
    return raw.size - saved;
}

// Gathers short text, so that the chain is called for long stretches only.
enum { gather_size = 1024, direct_size = 256, chunk_size = 64 };
struct gatherer {
    struct prefix_chain *chain;
    size_t used;
    uint8_t bytes[gather_size];
};

static void gather_flush(struct gatherer *gatherer)
{
    prefix_chain_add(gatherer->chain, slice_of(gatherer->bytes, gatherer->used));
    gatherer->used = 0;
}

// Makes room, and leaves the beginning of a block, which the chain would only copy once more.
static void gather_more(struct gatherer *gatherer)
{
    const struct prefix_chain *chain = gatherer->chain;
    size_t rest = (chain->pending + gatherer->used) % chain->block_size;
    if (rest > gatherer->used || rest > gather_size / 2) {
        gather_flush(gatherer);
        return;
    }
    prefix_chain_add(gatherer->chain, slice_of(gatherer->bytes, gatherer->used - rest));
    memmove(gatherer->bytes, gatherer->bytes + gatherer->used - rest, rest);
    gatherer->used = rest;
}

static void gather(struct gatherer *gatherer, struct slice bytes)
{
    if (bytes.size >= direct_size) {
        gather_flush(gatherer);
        prefix_chain_add(gatherer->chain, bytes);
        return;
    }
    if (bytes.size > gather_size - gatherer->used) {
        gather_flush(gatherer);
    }
    if (bytes.size > 0) {
        memcpy(gatherer->bytes + gatherer->used, bytes.bytes, bytes.size);
        gatherer->used += bytes.size;
    }
}

// Copies a chunk and returns where its backslashes are, as bits.
static uint64_t copy_chunk(uint8_t *out, const uint8_t *from)
{
    uint64_t found = 0;
#ifdef __SSE2__
    for (unsigned i = 0; i < chunk_size; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        __m128i equal = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
        found |= (uint64_t)(unsigned)_mm_movemask_epi8(equal) << i;
        _mm_storeu_si128((__m128i *)(void *)(out + i), bytes);
    }
#else
    for (unsigned i = 0; i < chunk_size; i++) {
        found |= (uint64_t)(from[i] == '\\') << i;
        out[i] = from[i];
    }
#endif
    return found;
}

// Reads one chunk, of which an escape at its end may be longer than it, and of which as much again
// must be readable.  The next escape in a text is unpredictable, so each costs at least one
// mispredicted branch.  Hence no loop ends at an escape: the whole chunk behind one is copied again
// to its place.
static const uint8_t *gather_chunk(struct gatherer *gatherer, const uint8_t *chunk,
                                   const uint8_t *end)
{
    uint8_t *out = gatherer->bytes + gatherer->used;
    uint64_t found = copy_chunk(out, chunk);
    size_t done = 0;

    while (found != 0) {
        size_t place = (size_t)__builtin_ctzll(found);
        size_t written = 0;
        out += place - done;
        done = place + unescape(chunk + place, end, out, &written);
        out += written;
        if (done >= chunk_size) {
            break;
        }
        memcpy(out, chunk + done, chunk_size);
        found &= ~UINT64_C(0) << done;
    }
    if (done < chunk_size) {
        out += chunk_size - done;
        done = chunk_size;
    }
    gatherer->used = (size_t)(out - gatherer->bytes);
    return chunk + done;
}

static void gather_string(struct gatherer *gatherer, struct slice raw)
{
    const uint8_t *end = raw.size > 0 ? raw.bytes + raw.size : raw.bytes;
    const uint8_t *at = raw.bytes;

    while ((size_t)(end - at) >= (size_t)2 * chunk_size) {
        if (gatherer->used > gather_size - 2 * chunk_size) {
            gather_more(gatherer);
        }
        at = gather_chunk(gatherer, at, end);
    }
    while (at < end) {
        if (*at == '\\') {
            uint8_t bytes[6];
            size_t written = 0;
            at += unescape(at, end, bytes, &written);
            gather(gatherer, slice_of(bytes, written));
        }
        const uint8_t *stop = find_backslash(at, end);
        gather(gatherer, slice_of(at, (size_t)(stop - at)));
        at = stop;
    }
}

static void gather_mark(struct gatherer *gatherer, enum prompt_mark mark)
{
    if (mark == MARK_NONE) {
        return;
    }
    if (gatherer->used == gather_size) {
        gather_flush(gatherer);
    }
    gatherer->bytes[gatherer->used++] = (uint8_t)mark;
}

static void gather_hash(struct gatherer *gatherer, struct slice raw)
{
    uint64_t hash = hash_bytes(raw, 0);
    gather(gatherer, slice_of(&hash, sizeof(hash)));
}

// ids_read has checked that they fit.
static void gather_tokens(struct gatherer *gatherer, struct slice raw)
{
    const uint8_t *end = raw.bytes + raw.size;

    for (const uint8_t *at = raw.bytes; at < end; at++) {
        uint32_t digit = *at - (uint32_t)'0';
        if (digit > 9) {
            continue;
        }
        uint32_t token = digit;
        for (at++; at < end && (digit = *at - (uint32_t)'0') <= 9; at++) {
            token = token * 10 + digit;
        }
        uint8_t bytes[4] = {(uint8_t)token, (uint8_t)(token >> 8), (uint8_t)(token >> 16),
                            (uint8_t)(token >> 24)};
        gather(gatherer, slice_of(bytes, sizeof(bytes)));
    }
}

static void gather_piece(struct gatherer *gatherer, enum prompt_piece_kind kind, struct slice raw)
{
    gather_mark(gatherer, shapes[kind].before);
    switch (shapes[kind].encoding) {
    case AS_STRING:
        gather_string(gatherer, raw);
        break;
    case AS_IS:
        gather(gatherer, raw);
        break;
    case AS_HASH:
        gather_hash(gatherer, raw);
        break;
    case AS_TOKENS:
        gather_tokens(gatherer, raw);
        break;
    }
    gather_mark(gatherer, shapes[kind].after);
}

static void add_piece(struct prefix_chain *chain, enum prompt_piece_kind kind, struct slice raw)
{
    struct gatherer gatherer;
    gatherer.chain = chain;
    gatherer.used = 0;
    gather_piece(&gatherer, kind, raw);
    gather_flush(&gatherer);
}

void prompt_add_string(struct prefix_chain *chain, struct slice raw)
{
    add_piece(chain, PIECE_TEXT, raw);
}

// Tokens are counted apart.
static uint64_t piece_size(enum prompt_piece_kind kind, struct slice raw)
{
    uint64_t marks = (shapes[kind].before != MARK_NONE) + (shapes[kind].after != MARK_NONE);

    switch (shapes[kind].encoding) {
    case AS_STRING:
        return marks + string_size(raw);
    case AS_IS:
        return marks + raw.size;
    case AS_HASH:
        return marks + sizeof(uint64_t);
    case AS_TOKENS:
        break;
    }
    return marks;
}

void prompt_note(struct prompt_pieces *pieces, struct prompt_list *list,
                 enum prompt_piece_kind kind, struct slice raw)
{
    list->size += piece_size(kind, raw);
    if (list->cut || pieces->count == pieces->limit) {
        list->cut = true;
        return;
    }
    uint32_t index = ++pieces->count;
    pieces->all[index] = (struct prompt_piece){.raw = raw, .kind = kind};
    if (list->first == 0) {
        list->first = index;
    } else {
        pieces->all[list->last].next = index;
    }
    list->last = index;
}

void prompt_join(struct prompt_pieces *pieces, struct prompt_list *list,
                 const struct prompt_list *tail)
{
    list->size += tail->size;
    if (list->cut) {
        return;
    }
    list->cut = tail->cut;
    if (tail->first == 0) {
        return;
    }
    if (list->first == 0) {
        list->first = tail->first;
    } else {
        pieces->all[list->last].next = tail->first;
    }
    list->last = tail->last;
}

void prompt_hash_list(const struct prompt_pieces *pieces, const struct prompt_list *list,
                      struct prefix_chain *chain)
{
    struct gatherer gatherer;
    gatherer.chain = chain;
    gatherer.used = 0;
    for (uint32_t i = list->first; i != 0; i = pieces->all[i].next) {
        gather_piece(&gatherer, pieces->all[i].kind, pieces->all[i].raw);
    }
    gather_flush(&gatherer);
}

void prompt_begin_answer(struct prefix_chain *chain)
{
    add_piece(chain, PIECE_TURN, slice_str("assistant"));
}

void prompt_begin_tool_call(struct prefix_chain *chain, struct slice raw_name)
{
    add_piece(chain, PIECE_CALL, raw_name);
}

const struct prompt_member *prompt_member_find(const struct prompt_member *table, size_t count,
                                               struct slice key)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(table[i].name, key)) {
            return &table[i];
        }
    }
    if (key.size == 0 || memchr(key.bytes, '\\', key.size) == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (json_string_is(key, (const char *)table[i].name.bytes)) {
            return &table[i];
        }
    }
    return NULL;
}
