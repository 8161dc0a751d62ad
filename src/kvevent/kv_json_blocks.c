// SPDX-License-Identifier: Apache-2.0
//
// Events of TensorRT-LLM.  A store lists blocks that follow each other, each with its own tokens
// and tier; a notice covers a run of blocks of one size and tier.  The block that ends a run has
// been read by then and begins the next one.

#include "base/base.h"
#include "kvevent/kv_json_internal.h"

static enum prefix_tier tier_of_level(uint64_t level)
{
    return level < PREFIX_DISK ? (enum prefix_tier)level : PREFIX_DISK;
}

// Of several kinds of attention the widest decides what is a hit.
static struct kv_notice of_window(const struct kv_json *reader, const struct json_value *window,
                                  enum kv_notice_kind kind)
{
    struct kv_notice notice = {.kind = kind, .is_plain = true, .decides = true};
    notice.has_group = kv_json_u32(window, &notice.group);
    notice.decides = !notice.has_group || notice.group >= reader->window_max;
    return notice;
}

// The event does not name a tier, so the blocks are removed from every tier.
static bool read_gone(struct kv_json *reader, const struct kv_json_members *data,
                      const struct kv_notice *common, struct kv_notice *out)
{
    ASSERT(reader->ready_count == 0);
    *out = *common;
    const char *why = kv_json_hashes(reader, &data->of[KV_JSON_block_hashes], out);
    if (why != NULL) {
        return kv_json_malformed(reader, why, out);
    }
    for (uint32_t tier = prefix_tier_count - 1; tier > PREFIX_GPU; tier--) {
        out->tier = (enum prefix_tier)tier;
        reader->ready[reader->ready_count++] = *out;
    }
    out->tier = PREFIX_GPU;
    return true;
}

static bool read_level(const struct json_value *value, enum prefix_tier *out)
{
    uint64_t level;
    if (!json_uint(value, &level)) {
        return false;
    }
    *out = tier_of_level(level);
    return true;
}

// A block that was moved: it is stored in its new tier before it leaves the old one, so that it
// is known all the while.  False: the update is not a move.
static bool read_moved(struct kv_json *reader, const struct kv_json_members *data,
                       const struct kv_notice *common, struct kv_notice *out)
{
    ASSERT(reader->ready_count == 0);
    static const char *const names[] = {"old_value", "new_value"};
    const struct json_value *level = &data->of[KV_JSON_cache_level];
    struct json_value values[2];
    enum prefix_tier from;
    enum prefix_tier to;

    if (json_is_unset(level)) {
        return false;
    }
    if (level->kind != JSON_OBJECT) {
        return kv_json_malformed(reader, "cache_level is not an object", out);
    }
    kv_json_find(level->raw, names, 2, values);
    if (!kv_json_hash(&data->of[KV_JSON_block_hash], &reader->hashes[0]) ||
        !read_level(&values[0], &from) || !read_level(&values[1], &to)) {
        return kv_json_malformed(reader, "an update lacks block_hash, old_value or new_value", out);
    }
    if (from == to) {
        return false;
    }
    *out = *common;
    out->hashes = reader->hashes;
    out->hash_count = 1;
    out->kind = KV_NOTICE_REMOVED;
    out->tier = from;
    reader->ready[reader->ready_count++] = *out;
    out->kind = KV_NOTICE_STORED;
    out->tier = to;
    return true;
}

// The tokens of a block, each an object, behind `used` others.
static const char *read_block_tokens(struct kv_json *reader, struct slice list, uint32_t used,
                                     struct kv_json_block *out)
{
    static const char *const names[] = {"token_id", "token_extra_id"};
    struct json json = json_inside(list);
    struct json_item token;
    struct json_value values[2];
    uint64_t extra;

    while (json_next_whole(&json, &token)) {
        if (token.value.kind != JSON_OBJECT) {
            return "a token is not an object";
        }
        if (used + out->token_count == kv_token_max) {
            return "its blocks have more than 1048576 tokens";
        }
        kv_json_find(token.value.raw, names, 2, values);
        bool has_extra =
            !json_is_unset(&values[1]) && !(json_uint(&values[1], &extra) && extra == 0);
        uint32_t *id = &reader->tokens[used + out->token_count++];
        *id = 0;
        out->is_plain = out->is_plain && values[0].kind == JSON_NUMBER && !has_extra;
        if (values[0].kind == JSON_NUMBER && !kv_json_u32(&values[0], id)) {
            return "token_id is a number that is not an id";
        }
    }
    return NULL;
}

static const char *read_json_block(struct kv_json *reader, const struct json_value *value,
                                   uint32_t used, struct kv_json_block *out)
{
    struct kv_json_members block;

    *out = (struct kv_json_block){.is_plain = true};
    if (value->kind != JSON_OBJECT) {
        return "a block is not an object";
    }
    kv_json_members(value->raw, &block);
    const struct json_value *images = &block.of[KV_JSON_mm_keys];
    const struct json_value *level = &block.of[KV_JSON_cache_level];
    const struct json_value *tokens = &block.of[KV_JSON_tokens];
    if (!kv_json_hash(&block.of[KV_JSON_block_hash], &out->hash)) {
        return "block_hash is neither an integer of 64 bits nor hexadecimal";
    }
    if (!json_is_unset(level) && !read_level(level, &out->tier)) {
        return "cache_level is not a number";
    }
    struct kv_json_names *names = &reader->names_ahead;
    if (!kv_json_name(&block.of[KV_JSON_lora_name], names->adapter, &out->adapter) ||
        !kv_json_name(&block.of[KV_JSON_cache_salt], names->salt, &out->salt)) {
        return "lora_name or cache_salt is not a name";
    }
    if (tokens->kind != JSON_ARRAY) {
        return "tokens is not a list";
    }
    bool is_anonymous = kv_json_is_anonymous(&block, out->adapter);
    bool has_images = !json_is_unset(images);
    if (images->kind == JSON_ARRAY) {
        struct json_item image;
        struct json list = json_inside(images->raw);
        has_images = json_next_whole(&list, &image);
    }
    out->is_plain = !is_anonymous && !has_images;
    return read_block_tokens(reader, tokens->raw, used, out);
}

static bool is_alike(const struct kv_json_block *block, const struct kv_notice *run)
{
    return block->token_count == run->block_tokens && block->tier == run->tier &&
           block->is_plain == run->is_plain && run->hash_count < kv_hash_max;
}

// The next block needs the space where this one's name is.
static struct slice keep_name(struct slice name, const uint8_t *ahead, uint8_t *space)
{
    ASSERT(name.size <= kv_json_name_max);
    if (name.size == 0 || name.bytes != ahead) {
        return name;
    }
    memcpy(space, name.bytes, name.size);
    return slice_of(space, name.size);
}

// The block is the first of a run; moves its tokens to the front.
static void begin_block_run(struct kv_json *reader, struct kv_notice *run, uint32_t tokens_at)
{
    ASSERT(reader->has_block && tokens_at + reader->block.token_count <= kv_token_max);
    const struct kv_json_block *block = &reader->block;
    struct kv_json_names *ahead = &reader->names_ahead;

    memmove(reader->tokens, reader->tokens + tokens_at,
            block->token_count * sizeof(reader->tokens[0]));
    run->tokens = reader->tokens;
    run->hashes = reader->hashes;
    run->hash_count = 0;
    run->token_count = 0;
    run->block_tokens = block->token_count;
    run->tier = block->tier;
    run->is_plain = block->is_plain;
    run->adapter = keep_name(block->adapter, ahead->adapter, reader->names.adapter);
    run->salt = keep_name(block->salt, ahead->salt, reader->names.salt);
}

bool kv_json_run(struct kv_json *reader, struct kv_notice *out)
{
    ASSERT(reader->in_blocks && reader->run.token_count <= kv_token_max);
    struct kv_notice run = reader->run;
    struct json_item item;
    // Where the tokens of a block that was read ahead are.
    uint32_t tokens_at = reader->run.token_count;

    run.hash_count = 0;
    while (reader->has_block || json_next_whole(&reader->blocks, &item)) {
        if (!reader->has_block) {
            tokens_at = run.hash_count > 0 ? run.token_count : 0;
            const char *why = read_json_block(reader, &item.value, tokens_at, &reader->block);
            if (why != NULL) {
                reader->in_blocks = false;
                return kv_json_malformed(reader, why, out);
            }
            reader->has_block = true;
        }
        if (run.hash_count == 0) {
            begin_block_run(reader, &run, tokens_at);
        } else if (!is_alike(&reader->block, &run)) {
            break;
        }
        reader->hashes[run.hash_count++] = reader->block.hash;
        run.token_count += reader->block.token_count;
        reader->has_block = false;
    }
    reader->in_blocks = reader->has_block;
    if (run.hash_count == 0) {
        return false;
    }
    *out = run;
    if (!run.is_plain) {
        kv_json_hide_tokens(out);
    }
    reader->run = run;
    reader->run.has_parent = true;
    reader->run.parent = reader->hashes[run.hash_count - 1];
    return true;
}

static bool begin_blocks(struct kv_json *reader, const struct kv_json_members *data,
                         const struct kv_notice *common, struct kv_notice *out)
{
    const struct json_value *blocks = &data->of[KV_JSON_blocks];

    reader->run = *common;
    const char *why = kv_json_parent(&data->of[KV_JSON_parent_hash], &reader->run);
    if (why == NULL && blocks->kind != JSON_ARRAY) {
        why = "blocks is not a list";
    }
    if (why != NULL) {
        return kv_json_malformed(reader, why, out);
    }
    reader->blocks = json_inside(blocks->raw);
    reader->in_blocks = true;
    reader->has_block = false;
    return kv_json_run(reader, out);
}

bool kv_json_data(struct kv_json *reader, const struct kv_json_members *event,
                  struct kv_notice *out)
{
    const struct json_value *window = &event->of[KV_JSON_window_size];
    struct kv_json_members data;

    kv_json_members(event->of[KV_JSON_data].raw, &data);
    struct kv_notice stored = of_window(reader, window, KV_NOTICE_STORED);
    struct kv_notice removed = of_window(reader, window, KV_NOTICE_REMOVED);
    switch (kv_json_kind(&data.of[KV_JSON_type])) {
    case KV_JSON_STORED:
        return begin_blocks(reader, &data, &stored, out);
    case KV_JSON_REMOVED:
        return read_gone(reader, &data, &removed, out);
    case KV_JSON_UPDATED:
        return read_moved(reader, &data, &stored, out);
    case KV_JSON_CLEARED:
        return kv_json_cleared(out);
    case KV_JSON_CREATED: // the numbers of events begin again, which shows the restart
        return false;
    case KV_JSON_UNKNOWN:
        break;
    }
    return kv_json_unknown(reader, out);
}
