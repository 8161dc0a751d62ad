// SPDX-License-Identifier: Apache-2.0

#include "dialect/rank_specials.h"

#include "base/base.h"
#include "base/text.h"
#include "json/json.h"

#include <stdlib.h>

// An id as the key of a member, and the text that it stands for.
static bool read_one(struct slice key, struct slice object, uint8_t **at,
                     struct tokenizer_special *out)
{
    static const char *const name = "content";
    struct json_value content = {0};
    uint64_t id = 0;

    if (!slice_parse_u64(key, &id) || id > UINT32_MAX ||
        json_find(object, &name, 1, &content) != STATUS_OK || content.kind != JSON_STRING) {
        return false;
    }
    struct slice text = {0};
    if (json_string_decode(content.raw, *at, content.raw.size, &text) != STATUS_OK) {
        return false;
    }
    memmove(*at, text.bytes, text.size);
    *out = (struct tokenizer_special){.text = slice_of(*at, text.size), .id = (uint32_t)id};
    *at += text.size;
    return true;
}

// What the object has: counted first, so that there is one block.
static enum status read_all(struct slice object, struct rank_specials *out)
{
    struct json counting = json_open(object);
    struct json json = json_open(object);
    struct json_item item;
    uint32_t count = 0;

    if (json_next(&counting, &item)) {
        json_enter(&counting);
        while (json_next(&counting, &item)) {
            count++;
        }
    }
    struct tokenizer_special *items = calloc(1, (count + 1) * sizeof(*items) + object.size);
    if (items == NULL) {
        return STATUS_EXHAUSTED;
    }
    uint8_t *at = (uint8_t *)(items + count + 1);
    uint32_t done = 0;
    bool good = json_next(&json, &item);
    json_enter(&json);
    while (good && json_next(&json, &item)) {
        good = item.value.kind == JSON_OBJECT && json_skip(&json, &item.value) &&
               read_one(item.key, item.value.raw, &at, &items[done++]);
    }
    if (!good) {
        free(items);
        return STATUS_MALFORMED;
    }
    *out = (struct rank_specials){.items = items, .count = done};
    return STATUS_OK;
}

enum status rank_specials_read(struct slice json, struct rank_specials *out)
{
    static const char *const name = "added_tokens_decoder";
    struct json_value found = {0};

    if (json_find(json, &name, 1, &found) != STATUS_OK) {
        return STATUS_MALFORMED;
    }
    if (found.kind != JSON_OBJECT) {
        *out = (struct rank_specials){0};
        return found.kind == JSON_ABSENT || found.kind == JSON_NULL ? STATUS_OK : STATUS_MALFORMED;
    }
    return read_all(found.raw, out);
}

void rank_specials_free(struct rank_specials *specials)
{
    free(specials->items);
    *specials = (struct rank_specials){0};
}
