// SPDX-License-Identifier: Apache-2.0

#include "base/base.h"
#include "kvevent/kv_json_internal.h"

static const char *const field_names[] = {
#define X(name) #name,
    KV_JSON_FIELDS(X)
#undef X
};

void kv_json_find(struct slice object, const char *const *names, uint32_t count,
                  struct json_value *out)
{
    enum status status = json_find(object, names, count, out);
    ASSERT(status == STATUS_OK);
}

void kv_json_members(struct slice object, struct kv_json_members *out)
{
    kv_json_find(object, field_names, kv_json_field_count, out->of);
}

bool kv_json_u32(const struct json_value *value, uint32_t *out)
{
    uint64_t number;
    if (!json_uint(value, &number) || number > UINT32_MAX) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

// Two's complement: a hash is the same name whether it was written as signed or unsigned.
static bool read_json_integer(const struct json_value *value, uint64_t *out)
{
    const uint64_t lowest = (uint64_t)1 << 63;
    struct json_value digits = *value;
    uint64_t number;

    if (json_uint(value, out)) {
        return true;
    }
    if (value->kind != JSON_NUMBER || value->raw.bytes[0] != '-') {
        return false;
    }
    digits.raw = slice_of(value->raw.bytes + 1, value->raw.size - 1);
    if (!json_uint(&digits, &number) || number > lowest) {
        return false;
    }
    *out = 0 - number;
    return true;
}

bool kv_json_hex(struct slice digits, uint64_t *out)
{
    uint64_t number = 0;
    size_t at = slice_starts_with(digits, "0x") ? 2 : 0;

    if (at == digits.size) {
        return false;
    }
    for (; at < digits.size; at++) {
        int value = ascii_hex_value(digits.bytes[at]);
        if (value < 0) {
            return false;
        }
        number = number << 4 | (uint64_t)value;
    }
    *out = number;
    return true;
}

bool kv_json_hash(const struct json_value *value, uint64_t *out)
{
    return value->kind == JSON_STRING ? kv_json_hex(value->raw, out)
                                      : read_json_integer(value, out);
}

bool kv_json_name(const struct json_value *value, uint8_t *space, struct slice *out)
{
    *out = (struct slice){0};
    return json_is_unset(value) ||
           (value->kind == JSON_STRING && value->raw.size <= kv_json_name_max &&
            json_string_decode(value->raw, space, kv_json_name_max, out) == STATUS_OK);
}

const char *kv_json_hashes(struct kv_json *reader, const struct json_value *list,
                           struct kv_notice *out)
{
    struct json_item item;
    uint32_t count = 0;

    if (list->kind != JSON_ARRAY) {
        return "block_hashes is not a list";
    }
    struct json json = json_inside(list->raw);
    while (json_next_whole(&json, &item)) {
        if (count == kv_hash_max) {
            return "block_hashes has more than 65536 hashes";
        }
        if (!kv_json_hash(&item.value, &reader->hashes[count++])) {
            return "block_hashes has something that is neither an integer of 64 bits nor "
                   "hexadecimal";
        }
    }
    out->hashes = reader->hashes;
    out->hash_count = count;
    return NULL;
}

const char *kv_json_parent(const struct json_value *parent, struct kv_notice *out)
{
    out->has_parent = !json_is_unset(parent);
    return out->has_parent && !kv_json_hash(parent, &out->parent)
               ? "the parent's hash is neither an integer of 64 bits nor hexadecimal"
               : NULL;
}

void kv_json_hide_tokens(struct kv_notice *notice)
{
    notice->is_plain = false;
    notice->tokens = NULL;
    notice->token_count = 0;
}

bool kv_json_is_anonymous(const struct kv_json_members *block, struct slice adapter)
{
    const struct json_value *number = &block->of[KV_JSON_lora_id];
    uint64_t id;
    return adapter.size == 0 && !json_is_unset(number) && !(json_uint(number, &id) && id == 0);
}
