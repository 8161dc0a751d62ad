// SPDX-License-Identifier: Apache-2.0
//
// dialect.h -- how the engines of a model turn a request into token ids.
//
// A dialect is the tokenizer, the chat template, and the changes that the engine makes to a request
// before its template sees it.  Each can differ from what the engine really runs, so a dialect is
// certified, feature by feature (chat.h, CHAT_SHAPE_MAP): its ids are compared with the engine's
// own for a suite of requests.  A request is keyed by token ids when all its features are
// certified.
//
//     certified  plain, system, turns, tools      set after asking the engine (certify.h)
//     revoked    tools                            a response counted another number of tokens
//     in use     plain, system, turns
//
// A revoked feature stays revoked until the next start: an engine that disagreed once may do so
// again.
//
// Threads: shared; loaded data does not change, features and counters are atomic.
// Memory: taken by dialect_create.
#pragma once

#include "dialect/chat.h"
#include "template/template.h"
#include "tokenizer/tokenizer.h"

#include <stdatomic.h>

struct memo;

enum dialect_content { DIALECT_CONTENT_AUTO, DIALECT_CONTENT_TEXT, DIALECT_CONTENT_PARTS };

enum { dialect_error_size = 512, dialect_model_max = 64 };

struct dialect_options {
    const char *name; // in messages: where the files are
    const char *const *models;
    uint32_t model_count;
    enum dialect_engine engine;
    enum dialect_content content;
    struct slice tokenizer; // the text of tokenizer.json, or of a file of ranks
    const char *pattern;    // of the file of ranks, by name; NULL: it is a tokenizer.json
    struct slice config;    // of tokenizer_config.json; empty: the model has none
    struct slice template;  // replaces the one in the config; empty: that one
    struct slice kwargs;    // default variables of the template: a JSON object
    int32_t utc_offset_s;   // of the engine's clock
    bool is_trusted;        // certified from the start, for engines that cannot be asked
    bool forwards_ids;      // requests carry our ids where the engine takes them
};

// A template and the rules for its variables.
struct dialect_chat {
    struct template *template; // NULL: chats have no ids
    struct chat_rules rules;
};

struct dialect {
    const char *name;
    enum dialect_engine engine;
    struct tokenizer *tokenizer;
    struct dialect_chat chat;
    struct dialect_chat tool_chat; // for requests with tools, if the model has another template
    int32_t utc_offset_s;
    bool is_trusted;
    bool forwards_ids;
    char chat_error[dialect_error_size]; // why the template was refused; empty: it was not
    uint32_t model_count;
    struct slice *models;
    void *memory; // of texts that the rules point to

    // Written by the keeper and by any worker.
    struct {
        _Alignas(64) atomic_uint certified; // features
        atomic_uint revoked;
        // Every request adds to these: a cache line of their own keeps the one above shared.
        _Alignas(64) atomic_uint_fast64_t by_ids_count; // requests with ids of ours
        atomic_uint_fast64_t by_text_count;             // without: not certified, or refused
        atomic_uint_fast64_t confirmed_count;           // the engine's token count equals ours
        atomic_uint_fast64_t drift_count;               // the engine's token count differs
        atomic_uint_fast64_t text_bytes;                // of requests with ids
        atomic_uint_fast64_t known_bytes;               // of text_bytes, found in the memo
    } shared;
};

// Copies its input.  MALFORMED: the tokenizer is refused, and `error` says why.  With a refused
// template it succeeds: texts of completions still have ids.
enum status dialect_create(const struct dialect_options *options, struct dialect **out,
                           char error[dialect_error_size]);
void dialect_destroy(struct dialect **dialect);

// A dialect without models speaks for all.
bool dialect_speaks_for(const struct dialect *dialect, struct slice model);

enum { dialect_max = 16 };

// All dialects, shared by every thread.  The owner fills it before any reader is created.
struct dialect_set {
    struct dialect *dialects[dialect_max];
    uint32_t count;
    struct memo *memo;
};

// NULL when no dialect speaks for the model, and when `set` is NULL.
struct dialect *dialect_set_find(const struct dialect_set *set, struct slice model);

// Whether requests for that model are to carry our ids.
bool dialect_set_forwards_ids(const struct dialect_set *set, struct slice model);

// The features that requests may use.
static inline uint32_t dialect_shapes(const struct dialect *dialect)
{
    return atomic_load_explicit(&dialect->shared.certified, memory_order_relaxed) &
           ~atomic_load_explicit(&dialect->shared.revoked, memory_order_relaxed);
}

// Whether the engine's date has just changed, or will within `before_s`.
bool dialect_is_midnight(const struct dialect *dialect, uint64_t wall_s, uint32_t before_s);

// Compares the engine's token count of a request of that shape with ours.  True when this is the
// first difference that revokes a feature; `*revoked` are the features that it takes away.
bool dialect_check(struct dialect *dialect, uint32_t shape, uint64_t ours, uint64_t theirs,
                   uint32_t *revoked);

// Writes the names of features, with commas between them.
void dialect_add_shapes(uint32_t shapes, struct text *out);
