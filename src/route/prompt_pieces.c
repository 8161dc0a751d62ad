// SPDX-License-Identifier: Apache-2.0
//
// Most text is hashed where it lies.  Text with escapes goes through a small buffer, except for the
// long stretches between them.

#include "base/base.h"
#include "base/hash.h"
#include "route/prompt.h"
#include "route/prompt_internal.h"

enum encoding { AS_STRING, AS_IS, AS_HASH, AS_TOKENS };

// What a piece looks like in the chain.
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

// Reads one escape and writes what it stands for, at most six bytes; half a surrogate pair, which no
// UTF-8 can stand for, stays as it is written.  Returns how many bytes were read.
static size_t unescape(const uint8_t *at, const uint8_t *end, uint8_t *out, size_t *out_size)
{
    static const uint8_t meaning[256] = {
        ['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
        ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t',
    };
    size_t left = (size_t)(end - at);
    size_t read = 6;

    if (left < 6 || at[1] != 'u') {
        out[0] = left > 1 ? meaning[at[1]] : '\\';
        *out_size = 1;
        return left > 1 ? 2 : 1;
    }
    uint32_t character = unit_at(at + 2);
    if (character < 0x80) {
        out[0] = (uint8_t)character;
        *out_size = 1;
        return read;
    }
    if (character < 0x800) {
        out[0] = (uint8_t)(0xc0 | character >> 6);
        out[1] = (uint8_t)(0x80 | (character & 0x3f));
        *out_size = 2;
        return read;
    }
    if (character < 0xd800 || character > 0xdfff) {
        out[0] = (uint8_t)(0xe0 | character >> 12);
        out[1] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (character & 0x3f));
        *out_size = 3;
        return read;
    }
    bool pair = character < 0xdc00 && left >= 12 && at[6] == '\\' && at[7] == 'u';
    uint32_t low = pair ? unit_at(at + 8) : 0;
    if (low < 0xdc00 || low > 0xdfff) {
        memcpy(out, at, 6);
        *out_size = 6;
        return read;
    }
    character = 0x10000 + ((character - 0xd800) << 10) + (low - 0xdc00);
    out[0] = (uint8_t)(0xf0 | character >> 18);
    out[1] = (uint8_t)(0x80 | (character >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (character >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (character & 0x3f));
    *out_size = 4;
    return 12;
}

static uint64_t string_size(struct slice raw)
{
    const uint8_t *end = raw.size > 0 ? raw.bytes + raw.size : raw.bytes;
    uint64_t size = raw.size;

    for (const uint8_t *at = find_backslash(raw.bytes, end); at < end;) {
        if (end - at > 1 && at[1] != 'u') { // by far the most, and all alike
            size -= 1;
            at += 2;
        } else {
            uint8_t scratch[6];
            size_t written = 0;
            size_t read = unescape(at, end, scratch, &written);
            size -= read - written;
            at += read;
        }
        if (at < end && *at != '\\') {
            at = find_backslash(at, end);
        }
    }
    return size;
}

void prompt_add_string(struct prefix_chain *chain, struct slice raw)
{
    uint8_t buffer[1024];
    size_t used = 0;
    const uint8_t *end = raw.size > 0 ? raw.bytes + raw.size : raw.bytes;
    const uint8_t *at = raw.bytes;

    while (at < end) {
        if (*at == '\\') {
            size_t written = 0;
            at += unescape(at, end, buffer + used, &written);
            used += written;
        } else {
            const uint8_t *stop = find_backslash(at, end);
            size_t size = (size_t)(stop - at);
            if (size < sizeof(buffer) / 4) {
                memcpy(buffer + used, at, size);
                used += size;
            } else {
                prefix_chain_add(chain, slice_of(buffer, used));
                prefix_chain_add(chain, slice_of(at, size));
                used = 0;
            }
            at = stop;
        }
        // Room for another short stretch or escape.
        if (used > sizeof(buffer) - sizeof(buffer) / 4) {
            prefix_chain_add(chain, slice_of(buffer, used));
            used = 0;
        }
    }
    prefix_chain_add(chain, slice_of(buffer, used));
}

static void add_mark(struct prefix_chain *chain, enum prompt_mark mark)
{
    uint8_t byte = (uint8_t)mark;
    if (mark != MARK_NONE) {
        prefix_chain_add(chain, slice_of(&byte, 1));
    }
}

static void add_hash(struct prefix_chain *chain, struct slice raw)
{
    uint64_t hash = hash_bytes(raw, 0);
    prefix_chain_add(chain, slice_of(&hash, sizeof(hash)));
}

// Whoever noted them has seen that they fit.
static void add_tokens(struct prefix_chain *chain, struct slice raw)
{
    for (size_t i = 0; i < raw.size; i++) {
        uint32_t token = 0;
        if (raw.bytes[i] < '0' || raw.bytes[i] > '9') {
            continue;
        }
        for (; i < raw.size && raw.bytes[i] >= '0' && raw.bytes[i] <= '9'; i++) {
            token = token * 10 + (raw.bytes[i] - '0');
        }
        prefix_chain_add_token(chain, token);
    }
}

static void add_piece(struct prefix_chain *chain, enum prompt_piece_kind kind, struct slice raw)
{
    add_mark(chain, shapes[kind].before);
    switch (shapes[kind].encoding) {
    case AS_STRING:
        prompt_add_string(chain, raw);
        break;
    case AS_IS:
        prefix_chain_add(chain, raw);
        break;
    case AS_HASH:
        add_hash(chain, raw);
        break;
    case AS_TOKENS:
        add_tokens(chain, raw);
        break;
    }
    add_mark(chain, shapes[kind].after);
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
    for (uint32_t i = list->first; i != 0; i = pieces->all[i].next) {
        add_piece(chain, pieces->all[i].kind, pieces->all[i].raw);
    }
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
