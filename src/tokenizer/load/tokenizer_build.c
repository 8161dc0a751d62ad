// SPDX-License-Identifier: Apache-2.0
//
// From a draft to a tokenizer: words become the bytes they stand for, the search for added tokens
// and the merging get their tables, and the places where texts may be cut are decided.

#include "base/base.h"
#include "base/utf8.h"
#include "tokenizer/nfc/nfc.h"
#include "tokenizer/tokenizer_internal.h"

#include <stdlib.h>

// Code points of the byte alphabet: visible bytes stand for themselves, the other 68 are numbered
// from U+0100 on.
enum { alphabet_size = 0x100 + 68, no_byte = -1 };

struct added_list {
    struct added_token *tokens;
    uint32_t count;
};

struct tokenizer_builder {
    struct tokenizer_draft *load;
    struct tokenizer *tokenizer;
    int16_t alphabet[alphabet_size];
    uint32_t *words;      // by id: of the vocabulary, or no_word
    bool *is_added;       // by word
    struct slice *tokens; // by id, as struct bpe_options has them
    struct added_list added;
    struct added_list normalized;
    uint8_t *spellings; // of normalized tokens
};

static void fill_byte_alphabet(int16_t *alphabet)
{
    unsigned other = 0x100;
    for (unsigned i = 0; i < alphabet_size; i++) {
        alphabet[i] = no_byte;
    }
    for (unsigned byte = 0; byte < 0x100; byte++) {
        bool is_itself =
            (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
        alphabet[is_itself ? byte : other++] = (int16_t)byte;
    }
    ASSERT(other == alphabet_size);
}

// False, with bytes written that do not count, when a character is not of the alphabet.
static bool spell_bytes(const int16_t *alphabet, struct slice word, uint8_t *out, size_t *size)
{
    size_t count = 0;
    for (size_t at = 0; at < word.size;) {
        unsigned length;
        uint32_t character = utf8_read(word.bytes + at, &length);
        if (character >= alphabet_size || alphabet[character] == no_byte) {
            return false;
        }
        out[count++] = (uint8_t)alphabet[character];
        at += length;
    }
    *size = count;
    return true;
}

static bool number_words(struct tokenizer_builder *build)
{
    const struct vocabulary *vocabulary = &build->load->vocabulary;
    uint32_t id_count = 1;

    ASSERT(vocabulary->count > 0);
    for (uint32_t i = 0; i < vocabulary->count; i++) {
        if (vocabulary->words[i].id >= id_count) {
            id_count = vocabulary->words[i].id + 1;
        }
    }
    build->tokenizer->id_count = id_count;
    build->words = malloc(id_count * sizeof(*build->words));
    build->tokens = calloc(id_count, sizeof(*build->tokens));
    build->is_added = calloc(vocabulary->count, sizeof(*build->is_added));
    build->tokenizer->token_ends = calloc(id_count, sizeof(*build->tokenizer->token_ends));
    // No word is longer in a text than in the file.
    build->tokenizer->token_bytes = malloc(vocabulary->size + 1);
    if (build->words == NULL || build->tokens == NULL || build->is_added == NULL ||
        build->tokenizer->token_ends == NULL || build->tokenizer->token_bytes == NULL) {
        return load_exhausted(build->load);
    }
    memset(build->words, 0xff, id_count * sizeof(*build->words)); // no_word
    for (uint32_t i = 0; i < vocabulary->count; i++) {
        uint32_t id = vocabulary->words[i].id;
        if (build->words[id] != no_word) {
            return load_refuse(build->load, "two words have the id %u", (unsigned)id);
        }
        build->words[id] = i;
    }
    for (uint32_t i = 0; i < build->load->added_count; i++) {
        build->is_added[build->load->added[i].word] = true;
    }
    return true;
}

// "<0x0A>" for the byte 10.
enum { byte_name_size = 7 };
static void name_byte(unsigned byte, char *name)
{
    static const char digits[] = "0123456789ABCDEF";
    memcpy(name, "<0x..>", byte_name_size);
    name[3] = digits[byte >> 4];
    name[4] = digits[byte & 15];
}

static int byte_of_name(struct slice word)
{
    char name[byte_name_size];
    if (word.size != byte_name_size - 1 || word.bytes[0] != '<') {
        return no_byte;
    }
    int high = ascii_hex_value(word.bytes[3]);
    int low = ascii_hex_value(word.bytes[4]);
    if (high < 0 || low < 0) {
        return no_byte;
    }
    name_byte((unsigned)(high * 16 + low), name); // in capitals alone
    return slice_is(word, name) ? high * 16 + low : no_byte;
}

// SentencePiece.
static size_t spell_sentence_piece(const struct tokenizer_draft *load, struct slice word,
                                   uint8_t *out)
{
    int byte = load->byte_fallback ? byte_of_name(word) : no_byte;
    if (byte != no_byte) {
        out[0] = (uint8_t)byte;
        return 1;
    }
    return space_marks_undo(word, out);
}

// Writes what the word stands for to `out`, and returns the size of that; *token is what merging is
// to see of it.
static size_t spell_word(const struct tokenizer_builder *build, uint32_t word, uint8_t *out,
                         struct slice *token)
{
    const struct tokenizer_draft *load = build->load;
    struct slice text = vocabulary_text(&load->vocabulary, word);
    size_t size = text.size;
    bool is_token = word < load->model_word_count;

    if (load->pipeline.by_character) {
        if (is_token && !build->is_added[word]) {
            size = spell_sentence_piece(load, text, out);
        } else {
            memcpy(out, text.bytes, size);
        }
        *token = is_token ? text : *token;
        return size;
    }
    if (is_token && load->spells_bytes) {
        is_token = spell_bytes(build->alphabet, text, out, &size);
    } else {
        memcpy(out, text.bytes, size);
    }
    if (is_token) {
        *token = slice_of(out, size);
    } else {
        memcpy(out, text.bytes, size); // spell_bytes may have begun
    }
    return size;
}

static void spell_words(struct tokenizer_builder *build)
{
    struct tokenizer *tokenizer = build->tokenizer;
    size_t end = 0;

    for (uint32_t id = 0; id < tokenizer->id_count; id++) {
        if (build->words[id] != no_word) {
            end += spell_word(build, build->words[id], tokenizer->token_bytes + end,
                              &build->tokens[id]);
        }
        tokenizer->token_ends[id] = (uint32_t)end;
    }
    ASSERT(end <= build->load->vocabulary.size);
}

static bool occurs_in_utf8(unsigned byte)
{
    return byte != 0xc0 && byte != 0xc1 && byte < 0xf5;
}

// A token for each byte guarantees that no byte is unknown.
static bool check_byte_tokens(const struct tokenizer_builder *build)
{
    bool has_token[256] = {0};
    for (uint32_t id = 0; id < build->tokenizer->id_count; id++) {
        if (build->tokens[id].size == 1) {
            has_token[build->tokens[id].bytes[0]] = true;
        }
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        if (occurs_in_utf8(byte) && !has_token[byte]) {
            return load_refuse(build->load,
                               "a byte-level vocabulary without the byte 0x%02X is not "
                               "supported: " LOAD_ADVICE,
                               byte);
        }
    }
    return true;
}

// A character of one byte that is a word never falls back to its byte: Gemma 2 has no <0x09>.
static bool needs_byte(const struct tokenizer_draft *load, unsigned byte)
{
    uint8_t name = (uint8_t)byte;
    struct slice word = byte == ' ' ? slice_str(SPACE_MARK) : slice_of(&name, 1);
    bool is_word = byte < 0x80 && vocabulary_find(&load->vocabulary, word) < load->model_word_count;
    return byte == 0 || (occurs_in_utf8(byte) && !is_word);
}

static bool find_byte_ids(const struct tokenizer_builder *build, uint32_t *byte_ids)
{
    struct tokenizer_draft *load = build->load;

    for (unsigned byte = 0; byte < 256; byte++) {
        char name[byte_name_size];
        byte_ids[byte] = bpe_no_id;
        name_byte(byte, name);
        uint32_t word = vocabulary_find(&load->vocabulary, slice_str(name));
        if (load->byte_fallback && word < load->model_word_count) { // no_word is not
            byte_ids[byte] = load->vocabulary.words[word].id;
        } else if (load->byte_fallback && needs_byte(load, byte)) {
            return load_refuse(
                load, "byte_fallback without the token %s is not supported: " LOAD_ADVICE, name);
        } else if (load->byte_fallback) {
            byte_ids[byte] = byte_ids[0]; // never asked for
        }
    }
    return true;
}

// Words that no text can become are not tokens, and merges of them never happen.
static bool drop_unusable_merges(struct tokenizer_builder *build)
{
    struct tokenizer_draft *load = build->load;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < load->merge_count; i++) {
        const struct bpe_merge *merge = &load->merges[i];
        if (build->tokens[merge->left].size > 0 && build->tokens[merge->right].size > 0 &&
            build->tokens[merge->merged].size > 0) {
            load->merges[kept++] = *merge;
        }
    }
    ASSERT(kept <= load->merge_count);
    load->merge_count = kept;
    if (kept > bpe_merge_max) {
        return load_refuse(load, "more than %d merges are not supported", bpe_merge_max);
    }
    return true;
}

static bool check_bpe_model(const struct tokenizer_builder *build)
{
    struct tokenizer_draft *load = build->load;

    if (!load->pipeline.by_character) {
        return check_byte_tokens(build);
    }
    if (load->ignore_merges) {
        return load_refuse(load, "ignore_merges without ByteLevel is not supported: " LOAD_ADVICE);
    }
    uint32_t mark = vocabulary_find(&load->vocabulary, slice_str(SPACE_MARK));
    if (load->byte_fallback && mark >= load->model_word_count) { // no_word is
        return load_refuse(load,
                           "byte_fallback without the token U+2581 is not supported: " LOAD_ADVICE);
    }
    return true;
}

static bool build_bpe(struct tokenizer_builder *build)
{
    const struct tokenizer_draft *load = build->load;
    struct bpe_options options = {
        .tokens = build->tokens,
        .token_count = build->tokenizer->id_count,
        .merges = load->merges,
        .ignore_merges = load->ignore_merges,
        .by_character = load->pipeline.by_character,
        .unknown_id = bpe_no_id,
        .fuse_unknown = load->fuse_unknown,
    };
    if (!check_bpe_model(build) || !drop_unusable_merges(build) ||
        !find_byte_ids(build, options.byte_ids)) {
        return false;
    }
    options.merge_count = load->merge_count;
    if (load->unknown_word != no_word) {
        options.unknown_id = load->vocabulary.words[load->unknown_word].id;
    }
    build->tokenizer->bpe = bpe_create(&options);
    return build->tokenizer->bpe != NULL || load_exhausted(build->load);
}

// Writes the text of an added token, as the normalizer would change it.  Returns how many bytes.
static size_t spell_normalized(const struct pipeline *pipeline, struct slice text, uint8_t *out)
{
    uint8_t space[3 * word_size_max];
    struct slice normal = text;

    if (pipeline->is_nfc) {
        enum status status = nfc_normalize(text, space, sizeof(space), &normal);
        ASSERT(status == STATUS_OK); // nfc_bound
    }
    if (pipeline->replaces_spaces) {
        return space_marks_write(normal, pipeline->space_rule == SPACE_EACH_GAP, out);
    }
    memcpy(out, normal.bytes, normal.size);
    return normal.size;
}

// Refuses two tokens that the normalizer makes equal.
static bool check_normalized(struct tokenizer_builder *build)
{
    struct added_token *tokens = build->normalized.tokens;
    qsort(tokens, build->normalized.count, sizeof(*tokens), added_compare_texts);
    for (uint32_t i = 1; i < build->normalized.count; i++) {
        if (slice_equal(tokens[i - 1].text, tokens[i].text)) {
            return load_refuse(build->load,
                               "two added tokens are \"%s\" when normalized: not supported",
                               load_excerpt(tokens[i].text).text);
        }
    }
    return true;
}

static bool sort_added(struct tokenizer_builder *build)
{
    const struct tokenizer_draft *load = build->load;
    uint8_t *spelling = build->spellings;
    for (uint32_t i = 0; i < load->added_count; i++) {
        const struct load_added *from = &load->added[i];
        ASSERT(from->word < load->vocabulary.count);
        struct added_token token = from->token;
        token.text = vocabulary_text(&load->vocabulary, from->word);
        token.id = load->vocabulary.words[from->word].id;
        if (!from->is_normalized) {
            build->added.tokens[build->added.count++] = token;
            continue;
        }
        size_t size = spell_normalized(&load->pipeline, token.text, spelling);
        token.text = slice_of(spelling, size);
        spelling += size;
        build->normalized.tokens[build->normalized.count++] = token;
    }
    return check_normalized(build);
}

// *out stays NULL if the list is empty.
static bool build_added_list(struct tokenizer_builder *build, const struct added_list *list,
                             struct added **out)
{
    if (list->count == 0) {
        return true;
    }
    *out = added_create(list->tokens, list->count);
    return *out != NULL || load_exhausted(build->load);
}

static bool build_added(struct tokenizer_builder *build)
{
    const struct tokenizer_draft *load = build->load;
    size_t room = 1;

    for (uint32_t i = 0; i < load->added_count; i++) {
        size_t size = load->vocabulary.words[load->added[i].word].size;
        room += space_mark_size * (nfc_bound(size) + 1); // each byte may be a space
    }
    build->added.tokens = calloc(load->added_count + 1, sizeof(struct added_token));
    build->normalized.tokens = calloc(load->added_count + 1, sizeof(struct added_token));
    build->spellings = malloc(room);
    if (build->added.tokens == NULL || build->normalized.tokens == NULL ||
        build->spellings == NULL) {
        return load_exhausted(build->load);
    }
    return sort_added(build) && build_added_list(build, &build->added, &build->tokenizer->added) &&
           build_added_list(build, &build->normalized, &build->tokenizer->normalized);
}

// Only ASCII: other white space is taken for text, which forbids more cuts.
static bool is_ascii_white(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

// Takes from `cuts` those that the token could lie across; all of them when its flags look at its
// neighbours.
static void limit_cuts(const struct added_token *token, bool marks_are_spaces,
                       struct split_cuts *cuts)
{
    struct slice text = token->text;

    if (token->single_word || token->lstrip || token->rstrip) {
        *cuts = (struct split_cuts){0};
    }
    for (size_t i = 1; i < text.size; i++) {
        bool is_last = i + 1 == text.size;
        if (text.bytes[i - 1] == '\n' && !is_ascii_white(text.bytes[i])) {
            cuts->after_line = false;
        }
        if (text.bytes[i] == ' ' && !is_ascii_white(text.bytes[i - 1]) &&
            (is_last || !is_ascii_white(text.bytes[i + 1]))) {
            cuts->before_space = false;
        }
        // The text may have a space where the token has a mark.
        if (marks_are_spaces && space_mark_at(text, i)) {
            cuts->before_space = false;
        }
    }
}

static void note_last_bytes(struct tokenizer *tokenizer, const struct added_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        struct slice text = list->tokens[i].text;
        ASSERT(text.size > 0);
        tokenizer->is_last_of_added[text.bytes[text.size - 1]] = true;
    }
}

static void build_cuts(struct tokenizer_builder *build)
{
    struct tokenizer *tokenizer = build->tokenizer;
    const struct pipeline *pipeline = &tokenizer->pipeline;
    // By character, bpe_can_cut decides for each place.
    struct split_cuts cuts = {
        .after_line = true, .after_line_before_slash = true, .before_space = true};
    bool is_per_gap =
        pipeline->space_rule == SPACE_EACH_GAP || pipeline->space_rule == SPACE_UNLESS_THERE;

    if (!pipeline->by_character) {
        cuts = split_cuts(pipeline->split);
    }
    for (uint32_t i = 0; i < build->normalized.count; i++) {
        limit_cuts(&build->normalized.tokens[i], pipeline->replaces_spaces, &cuts);
    }
    tokenizer->gap_cuts = cuts;
    for (uint32_t i = 0; i < build->added.count; i++) {
        limit_cuts(&build->added.tokens[i], false, &cuts);
    }
    if (is_per_gap) {
        note_last_bytes(tokenizer, &build->normalized);
        note_last_bytes(tokenizer, &build->added);
    }
    // is_cut_by_its_program must see the whole text.
    tokenizer->text_cuts = tokenizer->text_characters_max > 0 ? (struct split_cuts){0} : cuts;
}

static bool build_specials(struct tokenizer_builder *build)
{
    struct tokenizer_draft *load = build->load;
    const struct special_ids *lists[] = {&load->before, &load->behind};

    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        for (uint32_t j = 0; j < lists[i]->count; j++) {
            if (lists[i]->ids[j] >= build->tokenizer->id_count) {
                return load_refuse(load, "the post_processor has an id that does not exist");
            }
        }
    }
    ASSERT(load->before.count <= special_ids_max && load->behind.count <= special_ids_max);
    build->tokenizer->before = load->before;
    build->tokenizer->behind = load->behind;
    return true;
}

static bool build_parts(struct tokenizer_builder *build)
{
    if (!number_words(build)) {
        return false;
    }
    fill_byte_alphabet(build->alphabet);
    spell_words(build);
    if (!build_specials(build) || !build_added(build)) {
        return false;
    }
    build_cuts(build);
    return build_bpe(build);
}

bool tokenizer_build(struct tokenizer_draft *load, struct tokenizer **out)
{
    struct tokenizer_builder build = {.load = load};

    build.tokenizer = calloc(1, sizeof(*build.tokenizer));
    if (build.tokenizer == NULL) {
        return load_exhausted(load);
    }
    build.tokenizer->pipeline = load->pipeline;
    build.tokenizer->text_characters_max = load->text_characters_max;
    build.tokenizer->run_characters_max = load->run_characters_max;
    build.tokenizer->fingerprint = load->fingerprint;
    bool is_built = build_parts(&build);
    if (is_built) {
        ASSERT(build.tokenizer->bpe != NULL && build.tokenizer->id_count > 0);
        *out = build.tokenizer;
        build.tokenizer = NULL; // now the caller's
    }
    free(build.words);
    free(build.is_added);
    free(build.tokens);
    free(build.added.tokens);
    free(build.normalized.tokens);
    free(build.spellings);
    tokenizer_destroy(&build.tokenizer);
    return is_built;
}
