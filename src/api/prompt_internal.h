// SPDX-License-Identifier: Apache-2.0
//
// prompt_internal.h -- the pieces of a prompt, and how messages become pieces.
//
// A piece is a stretch of the body and what it means.  Pieces lie in one array and hang together in
// lists, so that a part of the prompt can be read before what comes ahead of it, and thrown away
// when its key comes a second time:
//
//     {"content": C, "role": R, "content": D}      C is dropped, then  R -> D
//
// The size of a list, in bytes to be hashed, is known without hashing, also for pieces that found
// no room.  The marks between pieces are bytes that no UTF-8 has, so no text can imitate them:
//
//     TOOLS text                                      the list of tools, as it stands
//     TURN role CONTENT text...                       a message
//         MEDIA hash                                  an image among its text, eight bytes
//         RESULT id CONTENT text... CONTENT           what a tool said, among its text
//         CALL name ARGUMENTS text                    a tool call, after all text
//         ID text, NAME text                          after all calls
#pragma once

#include "base/slice.h"
#include "json/json.h"
#include "prefix/prefix_chain.h"

enum prompt_mark {
    MARK_NONE,
    MARK_TOOLS = 0xf5,
    MARK_TURN,
    MARK_CONTENT,
    MARK_CALL,
    MARK_ARGUMENTS,
    MARK_RESULT,
    MARK_ID,
    MARK_NAME,
    MARK_MEDIA,
};

enum prompt_piece_kind {
    PIECE_TEXT,   // a string
    PIECE_JSON,   // any value, as it stands
    PIECE_TOOLS,  // the same
    PIECE_TURN,   // a role
    PIECE_CALL,   // the name of a tool
    PIECE_RESULT, // the id of a call
    PIECE_RESULT_END,
    PIECE_ID,
    PIECE_NAME,
    PIECE_MEDIA,  // any value, by its hash
    PIECE_TOKENS, // numbers and commas
};

struct prompt_piece {
    struct slice raw;
    uint32_t next; // 0: the last
    enum prompt_piece_kind kind;
};

// A request of more pieces is hashed as far as they go.  The spare ones are for what comes first in
// the prompt, wherever it was in the body.
enum { prompt_piece_max = 8192, prompt_piece_spare = 2 };

struct prompt_pieces {
    uint32_t count; // the first is not used
    uint32_t limit; // at most the array's end
    struct prompt_piece all[1 + prompt_piece_max + prompt_piece_spare];
};

struct prompt_list {
    uint32_t first; // 0: empty
    uint32_t last;
    bool cut;      // something found no room; nothing can follow
    uint64_t size; // bytes to be hashed, those without room included
};

void prompt_note(struct prompt_pieces *pieces, struct prompt_list *list,
                 enum prompt_piece_kind kind, struct slice raw);

// Puts the pieces of `tail`, which is then not to be used, behind those of `list`.
void prompt_join(struct prompt_pieces *pieces, struct prompt_list *list,
                 const struct prompt_list *tail);

void prompt_hash_list(const struct prompt_pieces *pieces, const struct prompt_list *list,
                      struct prefix_chain *chain);

// One row of a table that says which member of an object goes where.
struct prompt_walk;
struct prompt_member {
    struct slice name;
    void (*read)(struct prompt_walk *walk, const struct prompt_member *member,
                 struct json_value *value);
    uint8_t slot;  // the table's own: where a value is kept
    uint8_t group; // the table's own: which object it is a member of
    uint16_t apis; // bit a: enum prompt_api a has it; 0: no matter
};
#define PROMPT_NAME(text)                                                                          \
    {                                                                                              \
        (const uint8_t *)(text), sizeof(text) - 1                                                  \
    }

// NULL when no row has that name.  Keys may be written with escapes.
const struct prompt_member *prompt_member_find(const struct prompt_member *table, size_t count,
                                               struct slice key);

// The messages of a conversation.
struct prompt_turns {
    struct prompt_list list;
    uint32_t answers;      // messages of the assistant
    uint64_t history_size; // bytes before the last of them
    bool in_answer;        // the last message was one
    bool given;
};

// One pass over a body.  `turn` and `part` are those being read.
struct prompt_walk {
    struct json json;
    struct prompt_pieces *pieces;
    struct prompt_reader *reader;
    struct prompt_turn *turn;
    struct prompt_part *part;
};

// `value` is what json_next has just handed out.  Messages of the chat and Anthropic APIs and items
// of the responses API, which may also be one string.
void prompt_turns_read(struct prompt_walk *walk, struct json_value *value,
                       struct prompt_turns *turns);

// A system prompt that has a field of its own: a string or a list of parts.
void prompt_system_read(struct prompt_walk *walk, struct json_value *value,
                        struct prompt_list *list);
