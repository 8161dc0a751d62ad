// SPDX-License-Identifier: Apache-2.0
//
// The way of a text through the parts:
//
//     text   gaps between added tokens, searched in the text as it is
//     gap    parts, if it is long: at cuts, so that copies of it fit the scratch
//     part   normalized, and searched for the added tokens that are found after normalizing
//     run    text between those: split into pieces
//     piece  merged, 256 at a time

#include "base/base.h"
#include "base/utf8.h"
#include "tokenizer/nfc/nfc.h"
#include "tokenizer/split/char_class.h"
#include "tokenizer/tokenizer_internal.h"

enum {
    batch_size = 256,
    // Small enough to stay in the processor's cache between two passes.
    part_size = 1 << 16,
    // Offsets have 32 bits.
    part_size_max = 1 << 30,
};

struct encoding {
    const struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    uint32_t *ids;
    size_t capacity;
    size_t count;
};

static enum status encoding_add(struct encoding *encoding, uint32_t id)
{
    if (encoding->count == encoding->capacity) {
        return STATUS_TOO_LARGE;
    }
    encoding->ids[encoding->count++] = id;
    return STATUS_OK;
}

static enum status encoding_add_specials(struct encoding *encoding,
                                         const struct special_ids *specials)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < specials->count; i++) {
        status = encoding_add(encoding, specials->ids[i]);
    }
    return status;
}

// For a result that may be too small for one id a byte: encodes piece by piece into the scratch.
static enum status encode_tight(struct encoding *encoding, struct bpe_pieces pieces)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    struct tokenizer_scratch *scratch = encoding->scratch;
    uint32_t piece_count = pieces.count;

    for (uint32_t i = 0; i < piece_count; i++) {
        pieces.count = 1;
        size_t count = bpe_encode(tokenizer->bpe, scratch->bpe, &pieces, scratch->ids);
        if (count > encoding->capacity - encoding->count) {
            return STATUS_TOO_LARGE;
        }
        memcpy(encoding->ids + encoding->count, scratch->ids, count * sizeof(*scratch->ids));
        encoding->count += count;
        pieces.begin = pieces.ends[0];
        pieces.ends++;
        pieces.extra_space = false;
    }
    return STATUS_OK;
}

static bool has_long_piece(const struct bpe_pieces *pieces)
{
    uint32_t begin = pieces->begin;
    if (pieces->ends[pieces->count - 1] - begin <= tokenizer_piece_max) {
        return false;
    }
    for (uint32_t i = 0; i < pieces->count; i++) {
        if (pieces->ends[i] - begin > tokenizer_piece_max) {
            return true;
        }
        begin = pieces->ends[i];
    }
    return false;
}

static enum status encode_pieces(struct encoding *encoding, const struct bpe_pieces *pieces)
{
    ASSERT(pieces->count > 0 && pieces->ends[pieces->count - 1] >= pieces->begin);
    size_t room = pieces->ends[pieces->count - 1] - pieces->begin + pieces->extra_space;

    if (has_long_piece(pieces)) {
        return STATUS_TOO_LARGE;
    }
    if (room > encoding->capacity - encoding->count) {
        return encode_tight(encoding, *pieces);
    }
    encoding->count += bpe_encode(encoding->tokenizer->bpe, encoding->scratch->bpe, pieces,
                                  encoding->ids + encoding->count);
    return STATUS_OK;
}

static bool begins_with_space(const struct pipeline *pipeline, struct slice run)
{
    return run.bytes[0] == ' ' || (pipeline->by_character && space_mark_at(run, 0));
}

// Metaspace: a piece ends before each space.
static uint32_t split_at_spaces(struct slice run, size_t *at, uint32_t *ends, uint32_t capacity)
{
    uint32_t count = 0;

    while (count < capacity && *at < run.size) {
        size_t end = *at + (space_mark_at(run, *at) ? space_mark_size : 1);
        while (end < run.size && run.bytes[end] != ' ' && !space_mark_at(run, end)) {
            end++;
        }
        ends[count++] = (uint32_t)end;
        *at = end;
    }
    return count;
}

// SentencePiece has pieces as long as a text.  A piece may be cut where no token reaches across.
static uint32_t split_by_size(const struct bpe *bpe, struct slice run, size_t *at, uint32_t *end)
{
    if (*at == run.size) {
        return 0;
    }
    if (run.size - *at <= part_size) {
        *at = run.size;
    } else {
        unsigned size;
        // A piece longer than the maximum is refused: do not look further.
        size_t left = run.size - *at;
        const uint8_t *last =
            run.bytes + *at + (left > tokenizer_piece_max + 4 ? tokenizer_piece_max + 4 : left);
        const uint8_t *next = utf8_back(run.bytes, run.bytes + *at + part_size);
        uint32_t character = utf8_read(next, &size);
        uint32_t before;
        do {
            before = character;
            next += size;
            character = next < last ? utf8_read(next, &size) : 0;
        } while (next < last && !bpe_can_cut(bpe, before == ' ' ? space_mark : before,
                                             character == ' ' ? space_mark : character));
        *at = (size_t)(next - run.bytes);
    }
    *end = (uint32_t)*at;
    return 1;
}

static uint32_t next_pieces(const struct tokenizer *tokenizer, struct slice run, size_t *at,
                            uint32_t *ends)
{
    const struct pipeline *pipeline = &tokenizer->pipeline;
    if (!pipeline->by_character) {
        return split_pieces(pipeline->split, run, at, ends, batch_size);
    }
    return pipeline->splits_at_spaces ? split_at_spaces(run, at, ends, batch_size)
                                      : split_by_size(tokenizer->bpe, run, at, ends);
}

static enum status encode_split(struct encoding *encoding, struct slice run, bool extra_space)
{
    uint32_t ends[batch_size];
    size_t at = 0;
    struct bpe_pieces pieces = {.text = run, .ends = ends, .extra_space = extra_space};
    enum status status = STATUS_OK;

    while (status == STATUS_OK &&
           (pieces.count = next_pieces(encoding->tokenizer, run, &at, ends)) > 0) {
        status = encode_pieces(encoding, &pieces);
        pieces.begin = (uint32_t)at;
        pieces.extra_space = false;
    }
    return status;
}

// The place where a run of text begins, for the rule about spaces.
enum run_start {
    START_AT_CUT,
    START_OF_GAP,
    START_OF_TEXT,
};

// A run without added tokens.
static enum status encode_run(struct encoding *encoding, struct slice run, enum run_start start)
{
    const struct pipeline *pipeline = &encoding->tokenizer->pipeline;
    bool needs_space = false;

    if (run.size == 0) {
        return STATUS_OK;
    }
    if (pipeline->space_rule == SPACE_UNLESS_THERE) {
        needs_space = start != START_AT_CUT && !begins_with_space(pipeline, run);
    } else if (pipeline->space_rule == SPACE_FIRST) {
        needs_space = start == START_OF_TEXT && !begins_with_space(pipeline, run);
    } else if (pipeline->space_rule == SPACE_EACH_GAP && encoding->tokenizer->normalized == NULL) {
        needs_space = start != START_AT_CUT;
    }
    if (!needs_space || pipeline->by_character) {
        return encode_split(encoding, run, needs_space);
    }
    if (run.size >= scratch_text_size) {
        return STATUS_TOO_LARGE;
    }
    uint8_t *spaced = encoding->scratch->spaced;
    spaced[0] = ' ';
    memcpy(spaced + 1, run.bytes, run.size);
    return encode_split(encoding, slice_of(spaced, run.size + 1), false);
}

// Spells spaces as "▁", to find added tokens that have it in their text.
static enum status spell_space_marks(const struct encoding *encoding, struct slice *part,
                                     enum run_start start)
{
    bool is_first =
        start != START_AT_CUT && encoding->tokenizer->pipeline.space_rule == SPACE_EACH_GAP;
    uint8_t *spaced = encoding->scratch->spaced;

    if (space_mark_size * (part->size + 1) > scratch_text_size) {
        return STATUS_TOO_LARGE;
    }
    *part = slice_of(spaced, space_marks_write(*part, is_first, spaced));
    return STATUS_OK;
}

typedef enum status encode_fn(struct encoding *encoding, struct slice text, enum run_start start);

// Adds the ids of added tokens, and encodes the text between them.
static enum status encode_around(struct encoding *encoding, const struct added *added,
                                 struct slice text, enum run_start start, encode_fn *encode)
{
    struct added_walk walk = added_begin(added, text);
    struct added_match match = {.before = text};
    enum status status = STATUS_OK;

    while (status == STATUS_OK && added != NULL && added_next(&walk, &match)) {
        status = encode(encoding, match.before, start);
        if (status == STATUS_OK) {
            status = encoding_add(encoding, match.id);
        }
        start = START_OF_GAP;
    }
    return status == STATUS_OK ? encode(encoding, match.before, start) : status;
}

static enum status encode_part(struct encoding *encoding, struct slice part, enum run_start start)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    enum status status = STATUS_OK;

    if (tokenizer->pipeline.is_nfc && nfc_clean_prefix(part) < part.size) {
        status = nfc_normalize(part, encoding->scratch->normal, scratch_text_size, &part);
    }
    if (status == STATUS_OK && tokenizer->normalized != NULL &&
        tokenizer->pipeline.replaces_spaces) {
        status = spell_space_marks(encoding, &part, start);
    }
    return status == STATUS_OK
               ? encode_around(encoding, tokenizer->normalized, part, start, encode_run)
               : status;
}

static enum status encode_gap(struct encoding *encoding, struct slice gap, enum run_start start)
{
    const struct tokenizer *tokenizer = encoding->tokenizer;
    enum status status = STATUS_OK;

    while (status == STATUS_OK && gap.size > 0) {
        struct slice part = gap;
        if (gap.size > part_size) {
            part.size = tokenizer_find_cut(tokenizer, &tokenizer->gap_cuts, gap, part_size);
        }
        if (part.size > part_size_max) {
            return STATUS_TOO_LARGE;
        }
        ASSERT(part.size > 0 && part.size <= gap.size);
        status = encode_part(encoding, part, start);
        start = START_AT_CUT;
        gap = slice_of(gap.bytes + part.size, gap.size - part.size);
    }
    return status;
}

// The program that comes with a file of ranks cuts longer texts, and longer runs of white or of
// other characters, at any place.  Python's definition of white space counts.
static bool is_cut_by_its_program(const struct tokenizer *tokenizer, struct slice text)
{
    uint32_t count = 0;
    uint32_t run = 0;
    bool was_white = false;

    if (tokenizer->text_characters_max == 0 || text.size < tokenizer->run_characters_max) {
        return false;
    }
    for (size_t at = 0; at < text.size;) {
        unsigned size;
        uint32_t character = utf8_read(text.bytes + at, &size);
        bool is_white =
            (char_class(character) & CHAR_WS) != 0 || (character >= 0x1c && character <= 0x1f);
        run = is_white == was_white ? run + 1 : 1;
        was_white = is_white;
        if (++count > tokenizer->text_characters_max || run > tokenizer->run_characters_max) {
            return true;
        }
        at += size;
    }
    return false;
}

enum status tokenizer_encode(const struct tokenizer *tokenizer, struct tokenizer_scratch *scratch,
                             const struct tokenizer_input *input, uint32_t *ids, size_t capacity,
                             size_t *count)
{
    struct encoding encoding = {
        .tokenizer = tokenizer,
        .scratch = scratch,
        .capacity = capacity,
    };
    enum status status = STATUS_OK;

    encoding.ids = ids;
    ASSERT(scratch->tokenizer == tokenizer);
    ASSERT(ids != NULL || capacity == 0);
    if (!utf8_is_valid(input->text)) {
        return STATUS_MALFORMED;
    }
    if (is_cut_by_its_program(tokenizer, input->text)) {
        return STATUS_TOO_LARGE;
    }
    if (input->adds_special && !input->continues) {
        status = encoding_add_specials(&encoding, &tokenizer->before);
    }
    if (status == STATUS_OK) {
        status = encode_around(&encoding, tokenizer->added, input->text,
                               input->continues ? START_AT_CUT : START_OF_TEXT, encode_gap);
    }
    if (status == STATUS_OK && input->adds_special && !input->is_continued) {
        status = encoding_add_specials(&encoding, &tokenizer->behind);
    }
    if (status == STATUS_OK) {
        ASSERT(encoding.count <= capacity);
        *count = encoding.count;
    }
    return status;
}
