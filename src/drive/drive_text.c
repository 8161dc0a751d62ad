// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_text.h"

#include "base/base.h"
#include "base/text.h"
#include "drive/drive_memory.h"
#include "json/json_writer.h"

#include <inttypes.h>

enum {
    // Of a message, around its text.
    message_size = 48,
    // Of all other members but the model, which may be escaped.
    members_size = 256,
    escaped_size = 6, // of one byte, at most: \u00xx
    id_size = 11,     // of one id, at most, with its comma
};

const struct drive_api_kind drive_apis[drive_api_count] = {
    [DRIVE_CHAT] = {"chat", "/v1/chat/completions", PROMPT_CHAT},
    [DRIVE_COMPLETIONS] = {"completions", "/v1/completions", PROMPT_COMPLETION},
    [DRIVE_IDS] = {"ids", "/v1/completions", PROMPT_COMPLETION},
};

// The role of a piece in the prompt, and its text if it was kept.
struct piece_role {
    bool is_response;
    struct slice said; // empty: made up
};

static struct piece_role part_of(const struct work_item *item, uint32_t index,
                                 const struct drive_memory *memory)
{
    struct piece_role part = {0};
    part.is_response = item->session != 0 && memory != NULL &&
                       drive_memory_find(memory, item->session, item->pieces[index].id, &part.said);
    return part;
}

size_t drive_text_size(const struct drive_shape *shape, const struct work_item *item,
                       const struct drive_memory *memory)
{
    size_t size = members_size + escaped_size * strlen(shape->model) + message_size;
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        size_t made = (size_t)item->pieces[i].tokens * content_token_size;
        size_t text_size = part.said.size > 0 ? part.said.size : made;
        size += message_size +
                (shape->api == DRIVE_IDS ? text_size / content_token_size * id_size : text_size);
    }
    return size;
}

static void text_add_piece(const struct piece *piece, const struct piece_role *part,
                           struct text *out)
{
    if (part->said.size > 0) {
        text_add(out, part->said);
        return;
    }
    size_t size = (size_t)piece->tokens * content_token_size;
    ASSERT(size <= out->capacity - out->size);
    content_text(piece->id, 0, piece->tokens, (char *)out->bytes + out->size);
    out->size += size;
}

// Whether the first piece is the system message.  A first piece that a response follows is the
// user's.
static bool has_system(const struct drive_shape *shape, const struct work_item *item,
                       const struct drive_memory *memory)
{
    return item->piece_count > 1 && !shape->one_message && !part_of(item, 1, memory).is_response;
}

static void write_messages(const struct drive_shape *shape, const struct work_item *item,
                           const struct drive_memory *memory, struct json_writer *json)
{
    bool system = has_system(shape, item, memory);
    bool was_response = false;

    json_begin_array(json, "messages");
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        if (i == 0 || (i == 1 && system) || part.is_response || was_response) {
            if (i > 0) {
                json_end_string(json);
                json_end(json);
            }
            json_begin_object(json, NULL);
            json_put_str(json, "role",
                         part.is_response   ? "assistant"
                         : i == 0 && system ? "system"
                                            : "user");
            json_begin_string(json, "content");
        }
        text_add_piece(&item->pieces[i], &part, json->out);
        was_response = part.is_response;
    }
    if (item->piece_count > 0) {
        json_end_string(json);
        json_end(json);
    }
    json_end(json);
}

static void write_prompt(const struct work_item *item, const struct drive_memory *memory,
                         struct json_writer *json)
{
    json_begin_string(json, "prompt");
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        text_add_piece(&item->pieces[i], &part, json->out);
    }
    json_end_string(json);
}

static void add_ids(struct json_writer *json, struct slice text)
{
    for (size_t at = 0; at + content_token_size <= text.size; at += content_token_size) {
        const uint8_t *token = text.bytes + at;
        json_put_u64(json, NULL,
                     token[0] | (uint32_t)token[1] << 8 | (uint32_t)token[2] << 16 |
                         (uint32_t)token[3] << 24);
    }
}

static void add_made_ids(struct json_writer *json, const struct piece *piece)
{
    enum { run_tokens = 64 };
    char words[run_tokens * content_token_size];

    for (uint32_t from = 0; from < piece->tokens; from += run_tokens) {
        uint32_t left = piece->tokens - from;
        uint32_t part = left < run_tokens ? left : run_tokens;
        content_text(piece->id, from, part, words);
        add_ids(json, slice_of(words, (size_t)part * content_token_size));
    }
}

static void write_ids(const struct work_item *item, const struct drive_memory *memory,
                      struct json_writer *json)
{
    json_begin_array(json, "prompt");
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        if (part.said.size > 0) {
            add_ids(json, part.said);
        } else {
            add_made_ids(json, &item->pieces[i]);
        }
    }
    json_end(json);
}

void drive_text_write(const struct drive_shape *shape, const struct work_item *item,
                      const struct drive_memory *memory, struct text *out)
{
    struct json_writer writer = json_writer_over(out);
    struct json_writer *json = &writer;

    json_begin_object(json, NULL);
    json_put_str(json, "model", shape->model);
    switch (shape->api) {
    case DRIVE_CHAT:
        write_messages(shape, item, memory, json);
        break;
    case DRIVE_IDS:
        write_ids(item, memory, json);
        break;
    default:
        write_prompt(item, memory, json);
        break;
    }
    json_put_u64(json, "max_tokens", item->output_tokens);
    if (shape->is_greedy) {
        json_put_u64(json, "temperature", 0);
    }
    if (shape->ignore_eos) {
        json_put_bool(json, "ignore_eos", true);
    }
    if (shape->stream) {
        json_put_bool(json, "stream", true);
        json_begin_object(json, "stream_options");
        json_put_bool(json, "include_usage", true);
        json_end(json);
    }
    if (shape->names_sessions && item->session != 0) {
        json_put_format(json, "user", "session-%" PRIu64, item->session);
    }
    json_end(json);
}
