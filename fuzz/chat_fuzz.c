// SPDX-License-Identifier: Apache-2.0
//
// For any input: text that is not JSON is not a chat; an accepted chat has messages with roles and
// contents as the engine gives them, and prints as JSON; and engines treat messages the same when
// they are written again alone.

#include "base/base.h"
#include "base/text.h"
#include "dialect/chat.h"
#include "fuzz.h"
#include "json/json.h"

#include <stdlib.h>

enum { arena_size = 1 << 16, print_size = 1 << 16 };

struct reading {
    struct arena arena;
    struct value_room room;
    struct chat chat;
    enum status status;
};

static void read_chat(struct reading *reading, const struct chat_rules *rules, struct slice body)
{
    void *memory = malloc(arena_size);
    ASSERT(memory != NULL);
    reading->arena = arena_over(memory, arena_size);
    reading->room = (struct value_room){.arena = &reading->arena, .steps_left = 1 << 20};
    reading->status = chat_read(rules, body, &reading->room, &reading->chat);
}

static const struct value *messages_of(const struct reading *reading)
{
    const struct value *messages = value_dict_get(reading->chat.variables, slice_str("messages"));
    ASSERT(messages != NULL && messages->kind == VALUE_LIST && messages->list->count > 0);
    return messages;
}

// False when it does not fit.  Numbers that JSON does not have are printed as Python does.
static bool print(struct reading *reading, const struct value *value, struct text *out)
{
    static const struct value_json_style style = {.indent = -1};
    return value_to_json(&reading->room, value, &style, out) && !out->overflow;
}

static void check_message(const struct chat_rules *rules, const struct value *message)
{
    ASSERT(message->kind == VALUE_DICT);
    const struct value *role = value_dict_get(message->dict, slice_str("role"));
    const struct value *content = value_dict_get(message->dict, slice_str("content"));
    ASSERT(role != NULL && role->kind == VALUE_STRING);
    if (rules->engine >= DIALECT_TRTLLM) {
        return;
    }
    ASSERT(content != NULL);
    bool is_list = content->kind == VALUE_LIST;
    ASSERT(is_list || content->kind == VALUE_STRING);
    if (slice_is(role->string, "tool") || !rules->content_is_list) {
        ASSERT(!is_list);
    } else if (rules->engine == DIALECT_VLLM) {
        ASSERT(is_list || slice_is(role->string, "system")); // one that was merged
    }
}

// A body of these messages alone gives the same messages under `rules`.
static void check_written(const struct chat_rules *rules, struct slice body, struct reading *before)
{
    uint8_t *space = malloc(2 * (size_t)print_size);
    ASSERT(space != NULL);
    struct text first = text_over(space, print_size);
    struct text second = text_over(space + print_size, print_size);
    struct reading again;

    read_chat(&again, rules, body);
    ASSERT(again.status != STATUS_MALFORMED);
    if (again.status == STATUS_OK && print(before, messages_of(before), &first)) {
        bool printed = print(&again, messages_of(&again), &second);
        ASSERT(printed && slice_equal(text_slice(&first), text_slice(&second)));
    }
    free(again.arena.bytes);
    free(space);
}

static void check_again(const struct chat_rules *rules, struct reading *plain,
                        struct reading *before)
{
    uint8_t *space = malloc(print_size);
    ASSERT(space != NULL);
    struct text body = text_over(space, print_size);

    text_add_str(&body, "{\"messages\":");
    bool printed = print(plain, messages_of(plain), &body);
    text_add_str(&body, "}");
    struct json json = json_open(text_slice(&body));
    if (printed && !body.overflow && json_close(&json) == STATUS_OK) {
        check_written(rules, text_slice(&body), before);
    }
    free(space);
}

static void check(const struct chat_rules *rules, struct slice body, struct reading *plain)
{
    struct reading reading;
    struct json json = json_open(body);
    enum status json_status = json_close(&json);

    read_chat(&reading, rules, body);
    ASSERT(json_status == STATUS_OK || reading.status == json_status);
    ASSERT(reading.status == STATUS_OK || reading.room.error[0] != '\0');
    if (reading.status == STATUS_OK) {
        const struct value_list *messages = messages_of(&reading)->list;
        ASSERT((reading.chat.shape & CHAT_PLAIN_SHAPE) != 0);
        for (uint32_t i = 0; i < messages->count; i++) {
            check_message(rules, &messages->items[i]);
        }
        if (plain->status == STATUS_OK) {
            check_again(rules, plain, &reading);
        }
    }
    free(reading.arena.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const struct chat_rules plain_rules = {.engine = DIALECT_PLAIN};
    uint8_t *copy = malloc(size > 0 ? size : 1);
    ASSERT(copy != NULL);
    if (size > 0) {
        memcpy(copy, bytes, size);
    }
    struct slice body = slice_of(copy, size);
    struct reading plain;

    read_chat(&plain, &plain_rules, body);
    for (uint32_t i = 0; i < 16; i++) {
        struct chat_rules rules = {
            .engine = (enum dialect_engine)(i % 4),
            .content_is_list = (i / 4) % 2 == 1,
            .knows_developer = i / 8 == 1,
            .kwargs = slice_str("{\"a\":1}"),
        };
        check(&rules, body, &plain);
    }
    free(plain.arena.bytes);
    free(copy);
    return 0;
}
