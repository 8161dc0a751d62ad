// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_text.h"

#include "base/base.h"
#include "base/text.h"
#include "drive/drive_memory.h"

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
    bool is_answer;
    struct slice said; // empty: made up
};

static struct piece_role part_of(const struct work_item *item, uint32_t index,
                                 const struct drive_memory *memory)
{
    struct piece_role part = {0};
    part.is_answer = item->session != 0 && memory != NULL &&
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
    return item->piece_count > 1 && !shape->one_message && !part_of(item, 1, memory).is_answer;
}

static void write_messages(const struct drive_shape *shape, const struct work_item *item,
                           const struct drive_memory *memory, struct text *out)
{
    bool system = has_system(shape, item, memory);
    bool was_answer = false;

    text_add_str(out, "\"messages\":[");
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        if (i == 0 || (i == 1 && system) || part.is_answer || was_answer) {
            const char *role = part.is_answer ? "assistant" : i == 0 && system ? "system" : "user";
            text_add_str(out, i == 0 ? "{\"role\":\"" : "\"},{\"role\":\"");
            text_add_str(out, role);
            text_add_str(out, "\",\"content\":\"");
        }
        text_add_piece(&item->pieces[i], &part, out);
        was_answer = part.is_answer;
    }
    text_add_str(out, item->piece_count > 0 ? "\"}]" : "]");
}

static void write_prompt(const struct work_item *item, const struct drive_memory *memory,
                         struct text *out)
{
    text_add_str(out, "\"prompt\":\"");
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        text_add_piece(&item->pieces[i], &part, out);
    }
    text_add_str(out, "\"");
}

static void add_ids(struct text *out, struct slice text)
{
    for (size_t at = 0; at + content_token_size <= text.size; at += content_token_size) {
        const uint8_t *token = text.bytes + at;
        text_add_u64(out, token[0] | (uint32_t)token[1] << 8 | (uint32_t)token[2] << 16 |
                              (uint32_t)token[3] << 24);
        text_add_str(out, ",");
    }
}

static void add_made_ids(struct text *out, const struct piece *piece)
{
    enum { run_tokens = 64 };
    char words[run_tokens * content_token_size];

    for (uint32_t from = 0; from < piece->tokens; from += run_tokens) {
        uint32_t left = piece->tokens - from;
        uint32_t part = left < run_tokens ? left : run_tokens;
        content_text(piece->id, from, part, words);
        add_ids(out, slice_of(words, (size_t)part * content_token_size));
    }
}

static void write_ids(const struct work_item *item, const struct drive_memory *memory,
                      struct text *out)
{
    text_add_str(out, "\"prompt\":[");
    size_t begin = out->size;
    for (uint32_t i = 0; i < item->piece_count; i++) {
        struct piece_role part = part_of(item, i, memory);
        if (part.said.size > 0) {
            add_ids(out, part.said);
        } else {
            add_made_ids(out, &item->pieces[i]);
        }
    }
    out->size -= out->size > begin; // the last comma
    text_add_str(out, "]");
}

void drive_text_write(const struct drive_shape *shape, const struct work_item *item,
                      const struct drive_memory *memory, struct text *out)
{
    text_add_str(out, "{\"model\":");
    text_add_json(out, slice_str(shape->model));
    text_add_str(out, ",");
    switch (shape->api) {
    case DRIVE_CHAT:
        write_messages(shape, item, memory, out);
        break;
    case DRIVE_IDS:
        write_ids(item, memory, out);
        break;
    default:
        write_prompt(item, memory, out);
        break;
    }
    text_add_format(out, ",\"max_tokens\":%" PRIu32, item->output_tokens);
    if (shape->ignore_eos) {
        text_add_str(out, ",\"ignore_eos\":true");
    }
    if (shape->stream) {
        text_add_str(out, ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    }
    if (shape->names_sessions && item->session != 0) {
        text_add_format(out, ",\"user\":\"session-%" PRIu64 "\"", item->session);
    }
    text_add_str(out, "}");
}
