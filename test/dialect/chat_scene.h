// SPDX-License-Identifier: Apache-2.0
//
// chat_scene.h -- bodies read by the rules of an engine, and their variables as JSON text.
//
// JSON is written with ' for " here, in bodies and in expectations, to be readable.
#pragma once

#include "base/base.h"
#include "base/text.h"
#include "dialect/chat.h"

enum { chat_scene_size = 1 << 20, chat_engine_count = 4 };

struct chat_scene {
    struct chat_rules rules;
    struct chat chat;
    enum status status;
    struct value_room room;
    struct arena arena;
    char text[1 << 16];
};

// One for the whole test program: a call resets it.
static inline struct chat_scene *chat_scene_of(enum dialect_engine engine)
{
    static struct chat_scene scene;
    scene = (struct chat_scene){.rules = {.engine = engine}};
    return &scene;
}

static inline void chat_scene_read_slice(struct chat_scene *scene, struct slice body)
{
    static _Alignas(16) uint8_t memory[chat_scene_size];
    scene->arena = arena_over(memory, sizeof(memory));
    scene->room = (struct value_room){.arena = &scene->arena, .steps_left = 1 << 20};
    scene->status = chat_read(&scene->rules, body, &scene->room, &scene->chat);
}

static inline void chat_scene_swap(uint8_t *bytes, size_t size, uint8_t from, uint8_t to)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = bytes[i] == from ? to : bytes[i];
    }
}

// A body of three texts one after the other.
static inline void chat_scene_read_joined(struct chat_scene *scene, const char *begin,
                                          const char *middle, const char *end)
{
    static uint8_t body[1 << 15]; // values point into it
    struct text text = text_over(body, sizeof(body));

    text_add_str(&text, begin);
    text_add_str(&text, middle);
    text_add_str(&text, end);
    ASSERT(!text.overflow);
    chat_scene_swap(text.bytes, text.size, '\'', '"');
    chat_scene_read_slice(scene, text_slice(&text));
}

static inline void chat_scene_read(struct chat_scene *scene, const char *body)
{
    chat_scene_read_joined(scene, body, "", "");
}

static inline const char *chat_scene_end(struct chat_scene *scene, const struct text *text)
{
    ASSERT(!text->overflow);
    chat_scene_swap(text->bytes, text->size, '"', '\'');
    scene->text[text->size] = '\0';
    return scene->text;
}

// A variable as JSON text without blanks; "undefined"; or the reason why the body was refused.
static inline const char *chat_scene_variable(struct chat_scene *scene, const char *name)
{
    static const struct value_json_style style = {
        .indent = -1,
        .item_separator = {(const uint8_t *)",", 1},
        .key_separator = {(const uint8_t *)":", 1},
    };
    struct text text = text_over(scene->text, sizeof(scene->text) - 1);

    if (scene->status != STATUS_OK) {
        return scene->room.error;
    }
    const struct value *value = value_dict_get(scene->chat.variables, slice_str(name));
    if (value == NULL) {
        text_add_str(&text, "undefined");
    } else {
        bool written = value_to_json(&scene->room, value, &style, &text);
        ASSERT(written);
    }
    return chat_scene_end(scene, &text);
}

// The names of the shape's bits after the first, which all chats have.
static inline const char *chat_scene_shape(struct chat_scene *scene)
{
    struct text text = text_over(scene->text, sizeof(scene->text) - 1);

    if (scene->status != STATUS_OK) {
        return scene->room.error;
    }
    ASSERT((scene->chat.shape & CHAT_PLAIN_SHAPE) != 0);
    for (uint32_t bit = CHAT_SHAPE_BIT_PLAIN + 1; bit < chat_shape_count; bit++) {
        if ((scene->chat.shape & 1u << bit) != 0) {
            text_add_str(&text, text.size > 0 ? " " : "");
            text_add_str(&text, chat_shape_text((enum chat_shape_bit)bit));
        }
    }
    return chat_scene_end(scene, &text);
}

// A list of messages as the template sees it.
static inline const char *chat_scene_messages(struct chat_scene *scene, const char *messages)
{
    chat_scene_read_joined(scene, "{'messages':", messages, "}");
    return chat_scene_variable(scene, "messages");
}

// A variable of a body that has one message of the user and these members.
static inline const char *chat_scene_with(struct chat_scene *scene, const char *members,
                                          const char *variable)
{
    chat_scene_read_joined(scene, "{'messages':[{'role':'user','content':'hi'}],", members, "}");
    return chat_scene_variable(scene, variable);
}

// How many of the engines refuse a body for that reason, as MALFORMED.
static inline uint32_t chat_scene_refusals(const char *begin, const char *middle, const char *end,
                                           const char *why)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < chat_engine_count; i++) {
        struct chat_scene *scene = chat_scene_of((enum dialect_engine)i);
        chat_scene_read_joined(scene, begin, middle, end);
        count += scene->status == STATUS_MALFORMED && strcmp(scene->room.error, why) == 0;
    }
    return count;
}
