// SPDX-License-Identifier: Apache-2.0
//
// exact.h -- the token ids of a request, as its engine will compute them.
//
//     body --chat--> variables --template--> text --memo, tokenizer--> ids
//
// What does not go all the way has no ids and is routed by its text: another API, a feature that is not
// certified, an image, a template that raises an error.  The engine gets the request in any case.
//
// A long text is encoded in portions: exact_begin renders it, and exact_continue is called until it says
// that it is done, with other work in between.
//
// Threads: a reader belongs to one thread; the set is shared and does not change.  Memory: taken by
// exact_reader_create; reading allocates nothing.
#pragma once

#include "api/prompt.h"
#include "dialect/dialect.h"
#include "tokenizer/bpe/memo.h"

enum { exact_dialect_max = 16 };

// What all threads share.  The owner fills it before any reader is created.
struct exact_set {
    struct dialect *dialects[exact_dialect_max];
    uint32_t count;
    struct memo *memo;
};

struct dialect *exact_find(const struct exact_set *set, struct slice model);

// Whether requests for that model are to carry our ids.
bool exact_forwards(const struct exact_set *set, struct slice model);

// What one thread needs of its own to encode, whichever of its readers does: a few megabytes a
// dialect.
struct exact_thread;

// `number` is ours in the memo.  Keeps the set.  NULL when memory is short.
struct exact_thread *exact_thread_create(const struct exact_set *set, uint32_t number);
void exact_thread_destroy(struct exact_thread **thread);

const struct exact_set *exact_thread_set(const struct exact_thread *thread);

// Text of an answer, raw as a JSON string has it, behind a prompt whose ids the chain has: its ids, as a next
// prompt will have them if the template repeats what was said.  False, and nothing added, when it is too
// long or no text.
bool exact_add_answer(struct exact_thread *thread, const struct dialect *dialect, struct slice raw,
                      struct prefix_chain *chain);

struct exact_reader;

// Keeps the thread.  A rendered prompt of more than `text_max` bytes has no ids.  NULL when memory is
// short.
struct exact_reader *exact_reader_create(struct exact_thread *thread, size_t text_max);
void exact_reader_destroy(struct exact_reader **reader);

struct exact_request {
    struct dialect *dialect;
    enum prompt_api api;
    struct slice body;
    struct slice
        salt; // of the tenant: who has another one cannot tell by the time it takes what was sent
    uint64_t wall_s;  // seconds since 1970
    bool any_feature; // certified or not; for who certifies
};

struct exact_result {
    struct dialect *dialect; // NULL: there are no ids
    const uint32_t *ids;     // in the reader, until its next use
    uint32_t count;
    uint32_t shape;
};

// OK: done, see `*out`.  AGAIN: exact_continue has to be called; the body is not needed for it.
// MALFORMED, TOO_LARGE: no ids; exact_why says why.  Encodes about `portion` bytes.
enum status exact_begin(struct exact_reader *reader, const struct exact_request *request,
                        size_t portion, struct exact_result *out);
enum status exact_continue(struct exact_reader *reader, size_t portion, struct exact_result *out);

const char *exact_why(const struct exact_reader *reader);

// The rendered text, after exact_begin said OK or AGAIN; for people.
struct slice exact_text(const struct exact_reader *reader);
