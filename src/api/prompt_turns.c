// SPDX-License-Identifier: Apache-2.0
//
// Messages of three APIs in one form.  They differ in names, and each may have its members in any
// order; so one table of names serves all of them, members are kept until the end of their object,
// and what it was is decided there.

#include "api/prompt_internal.h"
#include "base/base.h"

// Values kept of a message, or of an item of the responses API.
enum turn_slot { TURN_ROLE, TURN_TYPE, TURN_NAME, TURN_ID, TURN_ARGUMENTS, TURN_SLOT_COUNT };

struct prompt_turn {
    struct json_value values[TURN_SLOT_COUNT];
    struct prompt_list content;
    struct prompt_list uses; // tool calls among the parts of the content
    struct prompt_list calls;
};

enum part_slot { PART_TYPE, PART_TEXT, PART_NAME, PART_ID, PART_INPUT, PART_SLOT_COUNT };

struct prompt_part {
    struct json_value values[PART_SLOT_COUNT];
    struct prompt_list media;
    struct prompt_list content; // of a tool's result
    bool nested;                // in a tool's result itself
};

// Both kinds of arguments: a string of JSON text, which is what models write, and JSON itself.
static void note_arguments(struct prompt_walk *walk, struct prompt_list *list,
                           const struct json_value *value)
{
    if (value->kind == JSON_STRING) {
        prompt_note(walk->pieces, list, PIECE_TEXT, value->raw);
    } else if (value->kind == JSON_OBJECT || value->kind == JSON_ARRAY) {
        prompt_note(walk->pieces, list, PIECE_JSON, value->raw);
    }
}

static void note_string(struct prompt_walk *walk, struct prompt_list *list,
                        enum prompt_piece_kind kind, const struct json_value *value)
{
    if (value->kind == JSON_STRING) {
        prompt_note(walk->pieces, list, kind, value->raw);
    }
}

static void note_call(struct prompt_walk *walk, struct prompt_list *list,
                      const struct json_value *name, const struct json_value *arguments)
{
    struct slice raw = name->kind == JSON_STRING ? name->raw : slice_of(NULL, 0);
    prompt_note(walk->pieces, list, PIECE_CALL, raw);
    note_arguments(walk, list, arguments);
}

static void members_read(struct prompt_walk *walk, const struct prompt_member *table, size_t count)
{
    struct json_item item;

    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        const struct prompt_member *member = prompt_member_find(table, count, item.key);
        if (member != NULL) {
            member->read(walk, member, &item.value);
        }
    }
}

static void content_read(struct prompt_walk *walk, struct json_value *value,
                         struct prompt_list *content, bool nested);

static void part_keep(struct prompt_walk *walk, const struct prompt_member *member,
                      struct json_value *value)
{
    json_skip(&walk->json, value);
    walk->part->values[member->slot] = *value;
}

static void part_content_read(struct prompt_walk *walk,
                              [[maybe_unused]] const struct prompt_member *member,
                              struct json_value *value)
{
    struct prompt_part *part = walk->part;

    part->content = (struct prompt_list){0};
    if (!part->nested) { // results do not have results
        content_read(walk, value, &part->content, true);
    }
}

// Of an object that describes media, what only says how to read it.
static bool is_label(struct slice key)
{
    static const struct prompt_member labels[] = {
        {.name = PROMPT_NAME("type")},          {.name = PROMPT_NAME("detail")},
        {.name = PROMPT_NAME("media_type")},    {.name = PROMPT_NAME("format")},
        {.name = PROMPT_NAME("cache_control")},
    };
    return prompt_member_find(labels, ARRAY_COUNT(labels), key) != NULL;
}

// An address or the bytes themselves, or an object that has them somewhere.
static void part_media_read(struct prompt_walk *walk,
                            [[maybe_unused]] const struct prompt_member *member,
                            struct json_value *value)
{
    struct prompt_list *media = &walk->part->media;
    struct json_item item;

    if (value->kind != JSON_OBJECT) {
        note_string(walk, media, PIECE_MEDIA, value);
        return;
    }
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        bool counts = item.value.kind >= JSON_STRING && !is_label(item.key);
        if (counts && json_skip(&walk->json, &item.value)) {
            prompt_note(walk->pieces, media, PIECE_MEDIA, item.value.raw);
        }
    }
}

static const struct prompt_member part_members[] = {
    {.name = PROMPT_NAME("type"), .read = part_keep, .slot = PART_TYPE},
    {.name = PROMPT_NAME("text"), .read = part_keep, .slot = PART_TEXT},
    {.name = PROMPT_NAME("image_url"), .read = part_media_read},
    {.name = PROMPT_NAME("source"), .read = part_media_read},
    {.name = PROMPT_NAME("name"), .read = part_keep, .slot = PART_NAME},
    {.name = PROMPT_NAME("input"), .read = part_keep, .slot = PART_INPUT},
    {.name = PROMPT_NAME("tool_use_id"), .read = part_keep, .slot = PART_ID},
    {.name = PROMPT_NAME("content"), .read = part_content_read},
    {.name = PROMPT_NAME("input_audio"), .read = part_media_read},
    {.name = PROMPT_NAME("audio_url"), .read = part_media_read},
    {.name = PROMPT_NAME("video_url"), .read = part_media_read},
    {.name = PROMPT_NAME("image"), .read = part_media_read},
    {.name = PROMPT_NAME("image_embeds"), .read = part_media_read},
    {.name = PROMPT_NAME("audio"), .read = part_media_read},
    {.name = PROMPT_NAME("video"), .read = part_media_read},
    {.name = PROMPT_NAME("file"), .read = part_media_read},
    {.name = PROMPT_NAME("file_id"), .read = part_media_read},
    {.name = PROMPT_NAME("file_url"), .read = part_media_read},
    {.name = PROMPT_NAME("file_data"), .read = part_media_read},
    {.name = PROMPT_NAME("uuid"), .read = part_media_read},
};

static void part_finish(struct prompt_walk *walk, const struct prompt_part *part,
                        struct prompt_list *content)
{
    const struct json_value *type = &part->values[PART_TYPE];
    const struct json_value *id = &part->values[PART_ID];
    struct slice none = slice_of(NULL, 0);

    if (json_is_string(type, "tool_use")) {
        // Its list is the turn's, since all calls come after all text.
        note_call(walk, &walk->turn->uses, &part->values[PART_NAME], &part->values[PART_INPUT]);
    } else if (!part->nested && json_is_string(type, "tool_result")) {
        prompt_note(walk->pieces, content, PIECE_RESULT, id->kind == JSON_STRING ? id->raw : none);
        prompt_join(walk->pieces, content, &part->content);
        prompt_note(walk->pieces, content, PIECE_RESULT_END, none);
    } else if (!json_is_string(type, "reasoning_text")) { // which templates leave out
        note_string(walk, content, PIECE_TEXT, &part->values[PART_TEXT]);
        prompt_join(walk->pieces, content, &part->media);
    }
}

// A string, or a list of strings and parts.  Texts follow each other without a mark, as in a
// stream.
static void content_read(struct prompt_walk *walk, struct json_value *value,
                         struct prompt_list *content, bool nested)
{
    struct json_item item;

    note_string(walk, content, PIECE_TEXT, value);
    if (value->kind != JSON_ARRAY) {
        return;
    }
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        note_string(walk, content, PIECE_TEXT, &item.value);
        if (item.value.kind == JSON_OBJECT) {
            struct prompt_part part = {.nested = nested};
            struct prompt_part *outer = walk->part;
            walk->part = &part;
            members_read(walk, part_members, ARRAY_COUNT(part_members));
            walk->part = outer;
            part_finish(walk, &part, content);
        }
    }
}

static void turn_keep(struct prompt_walk *walk, const struct prompt_member *member,
                      struct json_value *value)
{
    json_skip(&walk->json, value);
    walk->turn->values[member->slot] = *value;
}

static void turn_content_read(struct prompt_walk *walk,
                              [[maybe_unused]] const struct prompt_member *member,
                              struct json_value *value)
{
    walk->turn->content = (struct prompt_list){0};
    walk->turn->uses = (struct prompt_list){0};
    content_read(walk, value, &walk->turn->content, false);
}

// One call: {"function": {"name", "arguments"}}, or without the shell.
static void call_read(struct prompt_walk *walk)
{
    struct json_value name = {0};
    struct json_value arguments = {0};
    struct json_item item;
    uint32_t level = 1;

    json_enter(&walk->json);
    while (level > 0) {
        if (!json_next(&walk->json, &item)) {
            level--;
        } else if (json_string_is(item.key, "name")) {
            name = item.value;
        } else if (json_string_is(item.key, "arguments")) {
            json_skip(&walk->json, &item.value);
            arguments = item.value;
        } else if (level == 1 && item.value.kind == JSON_OBJECT &&
                   json_string_is(item.key, "function")) {
            json_enter(&walk->json);
            level = 2;
        }
    }
    note_call(walk, &walk->turn->calls, &name, &arguments);
}

static void turn_calls_read(struct prompt_walk *walk,
                            [[maybe_unused]] const struct prompt_member *member,
                            struct json_value *value)
{
    struct json_item item;

    walk->turn->calls = (struct prompt_list){0};
    if (value->kind == JSON_OBJECT) {
        call_read(walk); // the form before there were several
    }
    if (value->kind != JSON_ARRAY) {
        return;
    }
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            call_read(walk);
        }
    }
}

static const struct prompt_member turn_members[] = {
    {.name = PROMPT_NAME("role"), .read = turn_keep, .slot = TURN_ROLE},
    {.name = PROMPT_NAME("content"), .read = turn_content_read},
    {.name = PROMPT_NAME("type"), .read = turn_keep, .slot = TURN_TYPE},
    {.name = PROMPT_NAME("name"), .read = turn_keep, .slot = TURN_NAME},
    {.name = PROMPT_NAME("tool_calls"), .read = turn_calls_read},
    {.name = PROMPT_NAME("tool_call_id"), .read = turn_keep, .slot = TURN_ID},
    {.name = PROMPT_NAME("call_id"), .read = turn_keep, .slot = TURN_ID},
    {.name = PROMPT_NAME("arguments"), .read = turn_keep, .slot = TURN_ARGUMENTS},
    {.name = PROMPT_NAME("output"), .read = turn_content_read},
    {.name = PROMPT_NAME("function_call"), .read = turn_calls_read},
};

static void answer_begin(struct prompt_turns *turns)
{
    turns->answers++;
    turns->history_size = turns->list.size;
}

static void message_finish(struct prompt_walk *walk, const struct prompt_turn *turn,
                           struct slice role, struct prompt_turns *turns)
{
    struct prompt_list *list = &turns->list;

    turns->in_answer = json_string_is(role, "assistant");
    if (turns->in_answer) {
        answer_begin(turns);
    }
    prompt_note(walk->pieces, list, PIECE_TURN, role);
    prompt_join(walk->pieces, list, &turn->content);
    prompt_join(walk->pieces, list, &turn->uses);
    prompt_join(walk->pieces, list, &turn->calls);
    note_string(walk, list, PIECE_ID, &turn->values[TURN_ID]);
    note_string(walk, list, PIECE_NAME, &turn->values[TURN_NAME]);
}

// A call that is an item of its own belongs to the answer that the item before it was part of.
static void call_finish(struct prompt_walk *walk, const struct prompt_turn *turn,
                        struct prompt_turns *turns)
{
    if (!turns->in_answer) {
        answer_begin(turns);
        prompt_note(walk->pieces, &turns->list, PIECE_TURN, slice_str("assistant"));
    }
    turns->in_answer = true;
    note_call(walk, &turns->list, &turn->values[TURN_NAME], &turn->values[TURN_ARGUMENTS]);
}

static void turn_finish(struct prompt_walk *walk, const struct prompt_turn *turn,
                        struct prompt_turns *turns)
{
    const struct json_value *role = &turn->values[TURN_ROLE];
    const struct json_value *type = &turn->values[TURN_TYPE];

    if (role->kind == JSON_STRING) {
        message_finish(walk, turn, role->raw, turns);
    } else if (json_is_string(type, "function_call")) {
        call_finish(walk, turn, turns);
    } else if (json_is_string(type, "function_call_output")) {
        message_finish(walk, turn, slice_str("tool"), turns);
    } else if (type->kind != JSON_STRING) {
        message_finish(walk, turn, slice_of(NULL, 0), turns);
    }
    // Anything else is an item of reasoning or the like, which does not come back to the engine.
}

void prompt_turns_read(struct prompt_walk *walk, struct json_value *value,
                       struct prompt_turns *turns)
{
    struct json_item item;

    *turns = (struct prompt_turns){0};
    if (value->kind == JSON_STRING) {
        prompt_note(walk->pieces, &turns->list, PIECE_TURN, slice_str("user"));
        prompt_note(walk->pieces, &turns->list, PIECE_TEXT, value->raw);
        turns->given = true;
    }
    if (value->kind != JSON_ARRAY) {
        return;
    }
    json_enter(&walk->json);
    while (json_next(&walk->json, &item)) {
        if (item.value.kind == JSON_OBJECT) {
            struct prompt_turn turn = {0};
            walk->turn = &turn;
            members_read(walk, turn_members, ARRAY_COUNT(turn_members));
            turn_finish(walk, &turn, turns);
            turns->given = true;
        }
    }
    walk->turn = NULL;
}

void prompt_system_read(struct prompt_walk *walk, struct json_value *value,
                        struct prompt_list *list)
{
    struct prompt_turn turn = {0}; // takes the calls, which have no place here

    *list = (struct prompt_list){0};
    if (value->kind != JSON_STRING && value->kind != JSON_ARRAY) {
        return;
    }
    prompt_note(walk->pieces, list, PIECE_TURN, slice_str("system"));
    walk->turn = &turn;
    content_read(walk, value, list, false);
    walk->turn = NULL;
}
