// SPDX-License-Identifier: Apache-2.0

#include "dialect/rank_specials.h"

#include "base/base.h"
#include "base/text.h"
#include "json/json.h"

#include <stdlib.h>

// One member: its key is the id; its text is copied to `*at`.
static bool read_special(struct slice key, const struct json_value *object, uint8_t **at,
                         struct tokenizer_special *out)
{
    struct json_value content = json_member(object, "content");
    struct slice text = {0};
    uint64_t id = 0;

    if (!slice_parse_u64(key, &id) || id > UINT32_MAX || content.kind != JSON_STRING ||
        json_string_decode(content.raw, *at, content.raw.size, &text) != STATUS_OK) {
        return false;
    }
    memmove(*at, text.bytes, text.size);
    *out = (struct tokenizer_special){.text = slice_of(*at, text.size), .id = (uint32_t)id};
    *at += text.size;
    return true;
}

static enum status read_specials(struct slice object, struct rank_specials *out)
{
    // Room for the most members that fit the object, and for all texts.
    size_t capacity = object.size / (sizeof("'1':{'content':''}") - 1) + 1;
    struct tokenizer_special *items = calloc(1, capacity * sizeof(*items) + object.size);
    if (items == NULL) {
        return STATUS_EXHAUSTED;
    }
    struct json json = json_inside(object);
    struct json_item item;
    uint8_t *at = (uint8_t *)(items + capacity);
    uint32_t count = 0;
    while (json_next_whole(&json, &item)) {
        ASSERT(count < capacity);
        if (!read_special(item.key, &item.value, &at, &items[count++])) {
            free(items);
            return STATUS_MALFORMED;
        }
    }
    *out = (struct rank_specials){.items = items, .count = count};
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
        return json_is_unset(&found) ? STATUS_OK : STATUS_MALFORMED;
    }
    return read_specials(found.raw, out);
}

void rank_specials_free(struct rank_specials *specials)
{
    free(specials->items);
    *specials = (struct rank_specials){0};
}
