// SPDX-License-Identifier: Apache-2.0
//
// token_reader.h -- the token ids of a request, as its engine will compute them.
//
//     body --chat--> variables --template--> text --memo, tokenizer--> ids
//
// A request that fails on the way has no ids and is routed by its text: another API, a feature that
// is not certified, an image, a template that raises an error.  The engine gets the request in any
// case.
//
// A long text is encoded in portions: token_reader_begin renders it, and token_reader_continue is
// called until it is done, with other work in between.
//
// Threads: a reader belongs to one thread; the set is shared and does not change.  Memory: taken by
// token_reader_create; reading allocates nothing.
#pragma once

#include "api/prompt.h"
#include "dialect/dialect.h"
#include "tokenizer/bpe/memo.h"

// Scratch memory that the readers of one thread share: a few megabytes a dialect.
struct token_thread;

// `number` is the thread's number in the memo.  Keeps the set.  NULL when out of memory.
struct token_thread *token_thread_create(const struct dialect_set *set, uint32_t number);
void token_thread_destroy(struct token_thread **thread);

const struct dialect_set *token_thread_set(const struct token_thread *thread);

// Adds the ids of a piece of response text, raw as in a JSON string, to the chain of its prompt:
// the next prompt has the same ids if the template repeats the text.  False, and nothing added,
// when the text is too long or cannot be decoded.
bool token_thread_add_response(struct token_thread *thread, const struct dialect *dialect,
                               struct slice raw, struct prefix_chain *chain);

struct token_reader;

// Keeps the thread.  A rendered prompt of more than `text_max` bytes has no ids.  NULL when out of
// memory.
struct token_reader *token_reader_create(struct token_thread *thread, size_t text_max);
void token_reader_destroy(struct token_reader **reader);

struct token_request {
    struct dialect *dialect;
    enum prompt_api api;
    struct slice body;
    struct slice salt; // of the tenant, so that response times do not reveal its prompts to others
    uint64_t wall_s;   // seconds since 1970
    bool any_feature;  // certified or not; for certify.c
};

struct token_result {
    struct dialect *dialect; // NULL: no ids
    const uint32_t *ids;     // in the reader, until its next use
    uint32_t count;
    uint32_t shape;
};

// OK: done, see `*out`.  AGAIN: call token_reader_continue, which does not need the body.
// MALFORMED, TOO_LARGE: no ids; token_reader_why says why.  Encodes about `portion` bytes.
enum status token_reader_begin(struct token_reader *reader, const struct token_request *request,
                               size_t portion, struct token_result *out);
enum status token_reader_continue(struct token_reader *reader, size_t portion,
                                  struct token_result *out);

const char *token_reader_why(const struct token_reader *reader);

// The rendered text, after token_reader_begin returned OK or AGAIN; for people.
struct slice token_reader_text(const struct token_reader *reader);
