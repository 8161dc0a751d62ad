// SPDX-License-Identifier: Apache-2.0
//
// An engine with arbitrary responses.  The first byte picks the engine; then each line is a
// response: a byte for its status, and the body, where "=" alone stands for a response with our own
// ids.
//
// For any input: each case is counted once; only features that a case has shown are certified; an
// engine that differs or does not respond has a reason; and an engine that always agrees is
// certified.

#include "base/base.h"
#include "dialect/certify.h"
#include "dialect/certify_suite.h"
#include "dialect/tiny_engine.h"
#include "fuzz.h"

#include <stdlib.h>

enum { space_size = 1 << 18 };

static const uint16_t statuses[] = {200, 201, 400, 404, 405, 500, 501, 503, 0, 199, 299, 300, 599};

// Made once: a fuzzer calls a million times.
static struct tiny_set engine;
static struct tiny_set own[4]; // by engine

__attribute__((constructor)) static void create(void)
{
    tiny_set_open(&engine, tiny_dialect((struct dialect_options){.is_trusted = true}));
    for (uint32_t i = 0; i < ARRAY_COUNT(own); i++) {
        tiny_set_open(&own[i],
                      tiny_dialect((struct dialect_options){.engine = (enum dialect_engine)i}));
    }
}

__attribute__((destructor)) static void destroy(void)
{
    tiny_set_close(&engine);
    for (uint32_t i = 0; i < ARRAY_COUNT(own); i++) {
        tiny_set_close(&own[i]);
    }
}

static void check(const struct certify *certify)
{
    uint32_t decided = certify->agreed_count + certify->differed_count + certify->skipped_count;
    uint32_t result = certify_result(certify);

    ASSERT(certify->case_index == decided && decided <= certify_case_count());
    ASSERT((result & ~certify->innocent) == 0);
    ASSERT(certify->agreed_count > 0 || result == 0);
    ASSERT(certify->differed_count > 0 || certify->innocent == result ||
           (certify->innocent & (CHAT_PLAIN_SHAPE | CHAT_COMPLETION_SHAPE)) == 0);
    ASSERT(memchr(certify->why, '\0', sizeof(certify->why)) != NULL);
}

// The next line without its end, off the rest.
static struct slice next_line(struct slice *rest)
{
    const uint8_t *end = rest->size > 0 ? memchr(rest->bytes, '\n', rest->size) : NULL;
    size_t size = end != NULL ? (size_t)(end - rest->bytes) : rest->size;
    struct slice line = slice_of(rest->bytes, size);
    size_t taken = end != NULL ? size + 1 : size;
    *rest = slice_of(rest->bytes + taken, rest->size - taken);
    return line;
}

// A copy of its own size, so that reading past its end is seen.
static enum certify_verdict answer(struct certify *certify, uint16_t status, struct slice body)
{
    uint8_t *copy = malloc(body.size > 0 ? body.size : 1);
    ASSERT(copy != NULL);
    if (body.size > 0) {
        memcpy(copy, body.bytes, body.size);
    }
    enum certify_verdict verdict = certify_response(certify, status, slice_of(copy, body.size));
    free(copy);
    return verdict;
}

static enum certify_verdict answer_line(struct certify *certify,
                                        const struct certify_question *question, struct slice line)
{
    static uint8_t space[space_size];
    struct text said = text_over(space, sizeof(space));
    uint16_t status = line.size > 0 ? statuses[line.bytes[0] % ARRAY_COUNT(statuses)] : 200;
    struct slice body = line.size > 0 ? slice_of(line.bytes + 1, line.size - 1) : line;

    if (!slice_is(body, "=")) {
        return answer(certify, status, body);
    }
    status = tiny_engine_respond(&engine, question->path, question->body, &said);
    ASSERT(!said.overflow);
    enum certify_verdict verdict = answer(certify, status, text_slice(&said));
    ASSERT(verdict != CERTIFY_IMPOSSIBLE);
    return verdict;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t space[space_size];
    struct text question_space = text_over(space, sizeof(space));
    struct certify_question question;
    struct certify certify;
    struct slice rest = slice_of(bytes + (size > 0), size - (size > 0));
    const struct tiny_set *ours = &own[size > 0 ? bytes[0] % ARRAY_COUNT(own) : 0];

    certify_begin(&certify, ours->set.dialects[0], ours->reader, slice_str("m"), 1000000);
    while (rest.size > 0 && certify_question(&certify, &question_space, &question)) {
        enum certify_verdict verdict = answer_line(&certify, &question, next_line(&rest));
        check(&certify);
        ASSERT(verdict == CERTIFY_AGREED || verdict == CERTIFY_SKIPPED ||
               verdict == CERTIFY_ASK_ON || certify.why[0] != '\0');
        if (verdict == CERTIFY_IMPOSSIBLE) {
            break;
        }
    }
    return 0;
}
