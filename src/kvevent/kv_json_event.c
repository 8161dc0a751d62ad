// SPDX-License-Identifier: Apache-2.0
//
// Events whose members have the names that vLLM gives them.

#include "base/base.h"
#include "kvevent/kv_json_internal.h"
#include "kvevent/kv_words.h"

// Pairs of ids and digests of images may stand among the ids: the tokens are then not plain.
static const char *read_json_tokens(struct kv_json *reader, const struct json_value *list,
                                    struct kv_notice *out)
{
    struct json_item item;
    uint32_t count = 0;

    out->is_plain = true;
    if (json_is_unset(list)) {
        return NULL;
    }
    if (list->kind != JSON_ARRAY) {
        return "token_ids is not a list";
    }
    struct json json = json_inside(list->raw);
    while (json_next_whole(&json, &item)) {
        if (count == kv_token_max) {
            return "token_ids has more than 1048576 ids";
        }
        if (item.value.kind != JSON_NUMBER) {
            out->is_plain = false;
            return NULL;
        }
        if (!kv_json_u32(&item.value, &reader->tokens[count++])) {
            return "token_ids has a number that is not an id";
        }
    }
    out->tokens = reader->tokens;
    out->token_count = count;
    return NULL;
}

// Whether the hash of blocks covers more than the adapter and the salt of the event.
static bool has_json_extra_keys(const struct json_value *list, const struct kv_notice *notice)
{
    struct json_item block;
    struct json_item key;

    if (json_is_unset(list)) {
        return false;
    }
    if (list->kind != JSON_ARRAY) {
        return true;
    }
    struct json blocks = json_inside(list->raw);
    while (json_next_whole(&blocks, &block)) {
        if (block.value.kind != JSON_ARRAY) {
            if (block.value.kind != JSON_NULL) {
                return true;
            }
            continue;
        }
        struct json keys = json_inside(block.value.raw);
        while (json_next_whole(&keys, &key)) {
            if (key.value.kind != JSON_STRING || (!slice_equal(key.value.raw, notice->adapter) &&
                                                  !slice_equal(key.value.raw, notice->salt))) {
                return true;
            }
        }
    }
    return false;
}

static bool attention_decides(const struct json_value *kind)
{
    return kind->kind == JSON_STRING ? kv_attention_decides(kind->raw) : json_is_unset(kind);
}

// The fields that stores and removals have in common.
static const char *read_place(struct kv_json *reader, const struct kv_json_members *event,
                              struct kv_notice *out)
{
    const struct json_value *group = &event->of[KV_JSON_group_idx];
    const struct json_value *locality = &event->of[KV_JSON_locality];
    struct slice medium;

    if (!kv_json_name(&event->of[KV_JSON_medium], reader->names_ahead.salt, &medium)) {
        return "medium is not a name";
    }
    out->tier = kv_tier_of(medium);
    out->is_remote = locality->kind == JSON_STRING && slice_is_nocase(locality->raw, "REMOTE");
    out->decides = attention_decides(&event->of[KV_JSON_kv_cache_spec_kind]);
    out->has_group = !json_is_unset(group);
    if (out->has_group && !kv_json_u32(group, &out->group)) {
        return "group_idx is not a number";
    }
    return kv_json_hashes(reader, &event->of[KV_JSON_block_hashes], out);
}

static const char *read_event_names(struct kv_json *reader, const struct kv_json_members *event,
                                    struct kv_notice *out)
{
    if (!kv_json_name(&event->of[KV_JSON_lora_name], reader->names.adapter, &out->adapter)) {
        return "lora_name is not a name";
    }
    if (!kv_json_name(&event->of[KV_JSON_cache_salt], reader->names.salt, &out->salt)) {
        return "cache_salt is not a name";
    }
    return NULL;
}

static const char *read_content(struct kv_json *reader, const struct kv_json_members *event,
                                struct kv_notice *out)
{
    const struct json_value *size = &event->of[KV_JSON_block_size];
    const char *why = read_json_tokens(reader, &event->of[KV_JSON_token_ids], out);

    if (why != NULL) {
        return why;
    }
    if (!(json_is_unset(size) && out->token_count == 0) && !kv_json_u32(size, &out->block_tokens)) {
        return "block_size is not a number";
    }
    bool is_anonymous = kv_json_is_anonymous(event, out->adapter);
    if (!out->is_plain || is_anonymous ||
        has_json_extra_keys(&event->of[KV_JSON_extra_keys], out)) {
        kv_json_hide_tokens(out);
    } else if (out->decides && out->token_count != (uint64_t)out->hash_count * out->block_tokens) {
        return "token_ids are not block_size for each of block_hashes";
    }
    return NULL;
}

bool kv_json_stored(struct kv_json *reader, const struct kv_json_members *event,
                    struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_STORED};
    const char *why = read_place(reader, event, out);
    why = why != NULL ? why : kv_json_parent(&event->of[KV_JSON_parent_block_hash], out);
    why = why != NULL ? why : read_event_names(reader, event, out);
    why = why != NULL ? why : read_content(reader, event, out);
    return why == NULL || kv_json_malformed(reader, why, out);
}

bool kv_json_removed(struct kv_json *reader, const struct kv_json_members *event,
                     struct kv_notice *out)
{
    *out = (struct kv_notice){.kind = KV_NOTICE_REMOVED, .is_plain = true};
    const char *why = read_place(reader, event, out);
    return why == NULL || kv_json_malformed(reader, why, out);
}
