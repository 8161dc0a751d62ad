// SPDX-License-Identifier: Apache-2.0
//
// Places where a text may be cut so that the ids of its parts, one after the other, are those of
// the whole: after a line feed before a visible character, and before a single space between two
// visible characters.  tokenizer_build.c decides which of the two a tokenizer allows; with
// SentencePiece, bpe_can_cut also decides for each place.

#include "base/utf8.h"
#include "tokenizer/split/char_class.h"
#include "tokenizer/tokenizer_internal.h"

struct neighbour {
    uint32_t character;
    bool is_white;
};

// The first character of these bytes.  Bytes that are not UTF-8, which the encoder refuses, forbid
// cuts.
static struct neighbour neighbour_of(struct slice bytes)
{
    const struct neighbour forbidden = {.is_white = true};
    unsigned size;

    if (bytes.size == 0 || utf8_size_of_lead(bytes.bytes[0]) > bytes.size) {
        return forbidden;
    }
    uint32_t character = utf8_read(bytes.bytes, &size);
    if (character > 0x10ffff) {
        return forbidden;
    }
    return (struct neighbour){
        .character = character,
        .is_white = (char_class(character) & CHAR_WS) != 0,
    };
}

static struct neighbour neighbour_before(struct slice text, size_t at)
{
    const uint8_t *begin = utf8_back(text.bytes, text.bytes + at);
    return neighbour_of(slice_of(begin, (size_t)(text.bytes + at - begin)));
}

static struct neighbour neighbour_behind(struct slice text, size_t at)
{
    return neighbour_of(slice_of(text.bytes + at, text.size - at));
}

static bool is_after_line(const struct tokenizer *tokenizer, const struct split_cuts *cuts,
                          struct slice text, size_t at)
{
    struct neighbour next = neighbour_behind(text, at);

    if (next.is_white || (next.character == '/' && !cuts->after_line_before_slash) ||
        tokenizer->is_last_of_added['\n']) {
        return false;
    }
    return !tokenizer->pipeline.by_character || bpe_can_cut(tokenizer->bpe, '\n', next.character);
}

static bool is_before_space(const struct tokenizer *tokenizer, struct slice text, size_t at)
{
    struct neighbour last = neighbour_before(text, at);

    if (last.is_white || neighbour_behind(text, at + 1).is_white ||
        tokenizer->is_last_of_added[text.bytes[at - 1]]) {
        return false;
    }
    return !tokenizer->pipeline.by_character || tokenizer->pipeline.splits_at_spaces ||
           bpe_can_cut(tokenizer->bpe, last.character, space_mark);
}

size_t tokenizer_find_cut(const struct tokenizer *tokenizer, const struct split_cuts *cuts,
                          struct slice text, size_t from)
{
    if (!cuts->after_line && !cuts->before_space) {
        return text.size;
    }
    for (size_t at = from > 0 ? from : 1; at < text.size; at++) {
        if (text.bytes[at] == ' ') {
            if (cuts->before_space && is_before_space(tokenizer, text, at)) {
                return at;
            }
        } else if (text.bytes[at - 1] == '\n' && cuts->after_line &&
                   is_after_line(tokenizer, cuts, text, at)) {
            return at;
        }
    }
    return text.size;
}
