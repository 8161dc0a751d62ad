// SPDX-License-Identifier: Apache-2.0

#include "tokenizer/bpe/bpe_symbols.h"

#include "base/base.h"
#include "base/utf8.h"

#include <stdlib.h>

enum {
    page_count_all = 0x110000 / 128,
    first_page_ids = 64, // pages that are taken at first
};

// Whether the token is one character.
static bool is_character_token(struct slice token, uint32_t *code_point)
{
    unsigned size;
    if (token.size == 0 || token.size > 4 || utf8_size_of_lead(token.bytes[0]) != token.size ||
        (token.bytes[0] >= 0x80 && token.bytes[0] < 0xc2)) {
        return false;
    }
    *code_point = utf8_read(token.bytes, &size);
    return *code_point < 0x110000;
}

static bool symbols_add_page(struct bpe_symbols *symbols, uint32_t page)
{
    uint32_t taken = symbols->page_count;
    if (taken == 0 || (taken >= first_page_ids && (taken & (taken - 1)) == 0)) {
        uint32_t room = taken == 0 ? (uint32_t)first_page_ids : taken * 2;
        void *ids = realloc(symbols->ids, room * sizeof(symbols->ids[0]));
        if (ids == NULL) {
            return false;
        }
        symbols->ids = ids;
    }
    ASSERT(taken <= page_count_all && page < page_count_all);
    memset(symbols->ids[taken], 0xff, sizeof(symbols->ids[0]));
    symbols->pages[page] = (uint16_t)taken;
    symbols->page_count++;
    return true;
}

static bool symbols_add_characters(struct bpe_symbols *symbols, const struct bpe_options *options)
{
    symbols->pages = calloc(page_count_all, sizeof(uint16_t));
    if (symbols->pages == NULL || !symbols_add_page(symbols, 0) || !symbols_add_page(symbols, 0)) {
        return false;
    }
    for (uint32_t id = 0; id < options->token_count; id++) {
        uint32_t code_point;
        if (!is_character_token(options->tokens[id], &code_point)) {
            continue;
        }
        if (symbols->pages[code_point >> 7] == 0 && !symbols_add_page(symbols, code_point >> 7)) {
            return false;
        }
        symbols->ids[symbols->pages[code_point >> 7]][code_point & 127] = id;
    }
    uint32_t space = bpe_symbols_of(symbols, space_mark);
    ASSERT(space != bpe_no_id || !symbols->has_bytes); // one byte would become three symbols
    symbols->ids[symbols->pages[0]][' '] = space;
    return true;
}

bool bpe_symbols_init(struct bpe_symbols *symbols, const struct bpe_options *options)
{
    ASSERT(options->token_count <= bpe_token_max);
    *symbols = (struct bpe_symbols){
        .by_character = options->by_character,
        .has_bytes = options->by_character && options->byte_ids[0] != bpe_no_id,
        .fuse_unknown = options->fuse_unknown,
        .unknown_id = options->unknown_id,
    };
    if (options->by_character) {
        memcpy(symbols->byte_ids, options->byte_ids, sizeof(symbols->byte_ids));
        return symbols_add_characters(symbols, options);
    }
    memset(symbols->byte_ids, 0xff, sizeof(symbols->byte_ids));
    for (uint32_t id = 0; id < options->token_count; id++) {
        if (options->tokens[id].size == 1) {
            symbols->byte_ids[options->tokens[id].bytes[0]] = id;
        }
    }
    return true;
}

void bpe_symbols_fini(struct bpe_symbols *symbols)
{
    free(symbols->pages);
    free(symbols->ids);
    *symbols = (struct bpe_symbols){0};
}

size_t bpe_symbols_memory(const struct bpe_symbols *symbols)
{
    return (symbols->pages != NULL ? page_count_all * sizeof(uint16_t) : 0) +
           symbols->page_count * sizeof(symbols->ids[0]);
}

// The symbols written so far.
struct symbol_list {
    uint32_t *ids;
    uint32_t count;
    bool was_unknown; // the last one
};

static void symbol_write_id(struct symbol_list *list, uint32_t id)
{
    list->ids[list->count++] = id;
    list->was_unknown = false;
}

static void symbol_write_unknown(const struct bpe_symbols *symbols, struct symbol_list *list)
{
    if (symbols->unknown_id == bpe_no_id || (list->was_unknown && symbols->fuse_unknown)) {
        return;
    }
    symbol_write_id(list, symbols->unknown_id);
    list->was_unknown = true;
}

static void symbol_write_character(const struct bpe_symbols *symbols, struct symbol_list *list,
                                   uint32_t code_point)
{
    uint32_t id = bpe_symbols_of(symbols, code_point);
    if (id != bpe_no_id) {
        symbol_write_id(list, id);
    } else if (symbols->has_bytes) {
        uint8_t bytes[4];
        unsigned size = utf8_write(code_point, bytes);
        for (unsigned i = 0; i < size; i++) {
            symbol_write_id(list, symbols->byte_ids[bytes[i]]);
        }
    } else {
        symbol_write_unknown(symbols, list);
    }
}

uint32_t bpe_symbols_write(const struct bpe_symbols *symbols, struct slice text, bool extra_space,
                           uint32_t *ids)
{
    if (!symbols->by_character) {
        for (size_t i = 0; i < text.size; i++) {
            ids[i] = symbols->byte_ids[text.bytes[i]];
        }
        return (uint32_t)text.size;
    }
    struct symbol_list list = {.ids = ids};
    if (extra_space) {
        symbol_write_character(symbols, &list, ' ');
    }
    for (size_t i = 0; i < text.size;) {
        unsigned size;
        symbol_write_character(symbols, &list, utf8_read(text.bytes + i, &size));
        i += size;
    }
    ASSERT(list.count <= text.size + extra_space);
    return list.count;
}
