// SPDX-License-Identifier: Apache-2.0

#include "metrics/span_json.h"

#include "json/json.h"
#include "metrics/receipt.h"
#include "test.h"

#include <math.h>

enum { space_size = 1 << 20 };

static char space[space_size + 1];

struct example {
    struct receipt receipt;
    struct receipt_parts parts;
};

static struct example example(void)
{
    return (struct example){
        .receipt = {.wall_us = 1700000000000000,
                    .trace = {0x4bf92f3577b34da6, 0x00000000000000ff},
                    .span = 0x1,
                    .parent = 0x00f067aa0ba902b7,
                    .is_sampled = true,
                    .decision.chosen.backend = 3,
                    .outcome = RECEIPT_OK,
                    .status = 200,
                    .decision.policy = &policy_warm,
                    .attempts = 2,
                    .request_bytes = 900,
                    .response_bytes = 1234,
                    .is_streamed = true,
                    .complete_us = 100,
                    .sent_us = 200,
                    .head_us = 5000,
                    .first_us = 6000,
                    .last_us = 16000,
                    .end_us = 16500,
                    .stage_ns = {[RECEIPT_STAGE_PARSE] = 4500,
                                 [RECEIPT_STAGE_TOKENIZE] = 60000,
                                 [RECEIPT_STAGE_MATCH] = 1500,
                                 [RECEIPT_STAGE_DECIDE] = 700},
                    .prompt_tokens = 512,
                    .decision.chosen.expected_tokens = 256,
                    .cached_tokens = 240,
                    .output_tokens = 11,
                    .has_cached_tokens = true,
                    .decision.chosen.by_events = true,
                    .saved_us = 12345,
                    .decision.candidate_count = 4,
                    .decision.chosen.running_requests = 2,
                    .decision.chosen.queued_tokens = 77,
                    .decision.chosen.wait_ms = 1.25f,
                    .decision.chosen.prefill_ms = 2.5f,
                    .decision.chosen.cost = NAN},
        .parts = {.id = slice_str("req-1"),
                  .model = slice_str("llama"),
                  .url = slice_str("http://10.0.0.2:8000"),
                  .path = slice_str("/v1/chat/completions")},
    };
}

static const struct receipt *whole(struct example *e)
{
    static uint64_t memory[receipt_size_max / sizeof(uint64_t)];
    e->receipt.id_size = (uint16_t)e->parts.id.size;
    e->receipt.model_size = (uint16_t)e->parts.model.size;
    e->receipt.url_size = (uint16_t)e->parts.url.size;
    e->receipt.path_size = (uint16_t)e->parts.path.size;
    receipt_write(&e->receipt, &e->parts, memory);
    return (const struct receipt *)memory;
}

static bool is_json(struct slice text)
{
    struct json json = json_open(text);
    struct json_item item;
    ASSERT(json_next(&json, &item));
    return json_close(&json) == STATUS_OK;
}

// The body with that one receipt, ended by a NUL.
static const char *body_of(struct example *e)
{
    struct span_json json;
    span_json_begin(&json, space, space_size, "router", "1.2");
    ASSERT(span_json_add(&json, whole(e)));
    struct slice text = span_json_end(&json);
    ASSERT(is_json(text));
    space[text.size] = '\0';
    return space;
}

static bool says(const char *body, const char *part)
{
    return strstr(body, part) != NULL;
}

#define ATTRIBUTE(key, kind, value) "{\"key\":\"" key "\",\"value\":{\"" kind "\":" value "}}"
#define EVENT(time, name) "{\"timeUnixNano\":\"" time "\",\"name\":\"" name "\"}"
#define STAGE_EVENT(time, name, duration)                                                          \
    "{\"timeUnixNano\":\"" time "\",\"name\":\"" name                                              \
    "\",\"attributes\":[{\"key\":\"warmpath.duration_ns\",\"value\":{\"intValue\":\"" duration     \
    "\"}}]}"

// In pieces, since one literal with macros in it cannot be formatted.
static const char *const span_of_the_example[] = {
    "{\"resourceSpans\":[{\"resource\":{\"attributes\":[",
    ATTRIBUTE("service.name", "stringValue", "\"router\""),
    ATTRIBUTE("service.version", "stringValue", "\"1.2\""),
    "]},\"scopeSpans\":[{\"scope\":{\"name\":\"warmpath\",\"version\":\"1.2\"},"
    "\"spans\":[{\"traceId\":\"4bf92f3577b34da600000000000000ff\","
    "\"spanId\":\"0000000000000001\",\"parentSpanId\":\"00f067aa0ba902b7\","
    "\"name\":\"chat\",\"flags\":769,\"kind\":2,"
    "\"startTimeUnixNano\":\"1700000000000000000\","
    "\"endTimeUnixNano\":\"1700000000016500000\",\"attributes\":[",
    ATTRIBUTE("warmpath.outcome", "stringValue", "\"ok\""),
    ATTRIBUTE("warmpath.request_id", "stringValue", "\"req-1\""),
    ATTRIBUTE("url.path", "stringValue", "\"/v1/chat/completions\""),
    ATTRIBUTE("http.response.status_code", "intValue", "\"200\""),
    ATTRIBUTE("http.request.body.size", "intValue", "\"900\""),
    ATTRIBUTE("http.response.size", "intValue", "\"1234\""),
    ATTRIBUTE("gen_ai.operation.name", "stringValue", "\"chat\""),
    ATTRIBUTE("gen_ai.request.model", "stringValue", "\"llama\""),
    ATTRIBUTE("warmpath.streamed", "boolValue", "true"),
    ATTRIBUTE("warmpath.attempts", "intValue", "\"2\""),
    ATTRIBUTE("warmpath.backend", "stringValue", "\"http://10.0.0.2:8000\""),
    ATTRIBUTE("server.address", "stringValue", "\"10.0.0.2\""),
    ATTRIBUTE("server.port", "intValue", "\"8000\""),
    ATTRIBUTE("warmpath.policy", "stringValue", "\"warm\""),
    ATTRIBUTE("warmpath.candidates", "intValue", "\"4\""),
    ATTRIBUTE("warmpath.expected_tokens", "intValue", "\"256\""),
    ATTRIBUTE("warmpath.by_events", "boolValue", "true"),
    ATTRIBUTE("warmpath.running_requests", "intValue", "\"2\""),
    ATTRIBUTE("warmpath.queued_tokens", "intValue", "\"77\""),
    ATTRIBUTE("warmpath.predicted_ms", "doubleValue", "3.750"),
    ATTRIBUTE("gen_ai.usage.input_tokens", "intValue", "\"512\""),
    ATTRIBUTE("gen_ai.usage.output_tokens", "intValue", "\"11\""),
    ATTRIBUTE("gen_ai.usage.cache_read.input_tokens", "intValue", "\"240\""),
    ATTRIBUTE("warmpath.cached_tokens", "intValue", "\"240\""),
    ATTRIBUTE("warmpath.ttft_ms", "doubleValue", "6.000"),
    ATTRIBUTE("warmpath.tpot_ms", "doubleValue", "1.000"),
    ATTRIBUTE("warmpath.saved_ms", "doubleValue", "12.345"),
    "],\"events\":[",
    EVENT("1700000000000100000", "request_complete"),
    STAGE_EVENT("1700000000000104500", "parse", "4500"),
    STAGE_EVENT("1700000000000164500", "tokenize", "60000"),
    STAGE_EVENT("1700000000000166000", "match", "1500"),
    STAGE_EVENT("1700000000000166700", "decide", "700"),
    EVENT("1700000000000200000", "sent"),
    EVENT("1700000000005000000", "answer_head"),
    EVENT("1700000000006000000", "first_token"),
    EVENT("1700000000016500000", "end"),
    "],\"status\":{}}]}]}]}",
};

// Commas stand between two objects of a list.
TEST(a_span_is_written_to_the_byte)
{
    char expected[8192];
    struct text text = text_over(expected, sizeof(expected));
    for (size_t i = 0; i < ARRAY_COUNT(span_of_the_example); i++) {
        const char *piece = span_of_the_example[i];
        bool follows = text.size > 0 && text.bytes[text.size - 1] == '}' && piece[0] == '{';
        text_add_str(&text, follows ? "," : "");
        text_add_str(&text, piece);
    }
    text_add(&text, slice_of("", 1));
    ASSERT(!text.overflow);
    struct example e = example();
    CHECK_STR(body_of(&e), expected);
}

TEST(unknown_values_are_left_out)
{
    static const char *const words[] = {"parentSpanId",   "status_code", "gen_ai",  "policy",
                                        "backend",        "cached",      "ttft",    "tpot",
                                        "saved",          "predicted",   "cost",    "server.",
                                        "\"error.type\"", "body.size",   "problem", "sent"};
    struct example e = {.receipt = {.trace = {0, 1},
                                    .span = 2,
                                    .outcome = RECEIPT_GONE,
                                    .wall_us = 1,
                                    .end_us = 2,
                                    .decision.chosen.cost = NAN}};
    const char *body = body_of(&e);
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (says(body, words[i])) {
            test_fail(__FILE__, __LINE__, "says %s", words[i]);
        }
    }
    CHECK(says(body, "\"name\":\"request\",\"flags\":257"));
    CHECK(says(body, "\"events\":[" EVENT("3000", "end") "]"));
}

TEST(stages_stay_between_the_request_and_its_sending)
{
    struct example e = example();
    e.receipt.stage_ns[RECEIPT_STAGE_QUEUE] = 4000000;
    const char *body = body_of(&e);
    CHECK(says(body, STAGE_EVENT("1700000000000200000", "queue",
                                 "4000000") "," EVENT("1700000000000200000", "sent")));
    e.receipt.sent_us = 0; // and never was sent
    CHECK(says(body_of(&e), STAGE_EVENT("1700000000004166700", "queue", "4000000")));
}

TEST(server_errors_and_broken_responses_are_errors)
{
    struct example e = example();
    e.receipt.status = 502;
    e.receipt.outcome = RECEIPT_FAILED;
    const char *body = body_of(&e);
    CHECK(says(body, "\"status\":{\"code\":2,\"message\":\"failed\"}"));
    CHECK(says(body, ATTRIBUTE("error.type", "stringValue", "\"502\"")));
    e.receipt.outcome = RECEIPT_REFUSED;
    e.receipt.problem = "no_backend";
    body = body_of(&e);
    CHECK(says(body, "\"status\":{\"code\":2,\"message\":\"no_backend\"}"));
    CHECK(says(body, ATTRIBUTE("error.type", "stringValue", "\"no_backend\"")));
    CHECK(says(body, ATTRIBUTE("warmpath.problem", "stringValue", "\"no_backend\"")));
    e.receipt.problem = NULL;
    e.receipt.status = 200;
    e.receipt.outcome = RECEIPT_BROKEN;
    CHECK(says(body_of(&e), ATTRIBUTE("error.type", "stringValue", "\"broken\"")));
    e.receipt.status = 404;
    e.receipt.outcome = RECEIPT_REJECTED;
    body = body_of(&e);
    CHECK(says(body, "\"status\":{}") && !says(body, "error.type"));
}

static bool has_server(const char *url, const char *host, const char *port)
{
    char expected[256];
    struct example e = example();
    e.parts.url = slice_str(url);
    snprintf(expected, sizeof(expected),
             ATTRIBUTE("server.address", "stringValue", "\"%s\"") "," ATTRIBUTE(
                 "server.port", "intValue", "\"%s\"") ",{\"key\":\"warmpath.policy",
             host, port);
    return says(body_of(&e), expected);
}

TEST(the_server_is_found_in_the_url)
{
    CHECK(has_server("http://a", "a", "80"));
    CHECK(has_server("https://a.b/", "a.b", "443"));
    CHECK(has_server("https://a.b:1/", "a.b", "1"));
    CHECK(has_server("http://[2001:db8::1]:9", "2001:db8::1", "9"));
    CHECK(has_server("http://[::1]", "::1", "80"));
    CHECK(has_server("http://a:8000#10.0.0.1#rank=3", "a", "8000"));
    struct example e = example();
    e.parts.url = slice_str("http://");
    body_of(&e);
    e.parts.url = slice_str("http://[::1");
    body_of(&e);
    e.parts.url = slice_str("a:b");
    CHECK(!says(body_of(&e), "server.address"));
}

TEST(the_query_is_not_part_of_the_path)
{
    struct example e = example();
    e.parts.path = slice_str("/v1/completions?key=secret");
    const char *body = body_of(&e);
    CHECK(says(body, "\"/v1/completions\"") && says(body, "\"name\":\"text_completion\""));
    CHECK(!says(body, "secret"));
}

// One wrong byte would make a collector refuse all the spans of a batch.
TEST(texts_of_clients_become_valid_json)
{
    struct example e = example();
    e.parts.model = slice_str("a\"b\\c\n\x01");
    CHECK(says(body_of(&e), "\"a\\\"b\\\\c\\n\\u0001\""));
    e.parts.model = slice_str("gr\xc3\xbc\xc3"); // cut within a letter
    CHECK(says(body_of(&e), "\"gr\xc3\xbc?\""));
    e.parts.model = slice_str("gr\xe2\x82"); // likewise
    CHECK(says(body_of(&e), "\"gr??\""));
    e.parts.model = slice_str("\xff\xfe latin");
    CHECK(says(body_of(&e), "\"?? latin\""));
    e.parts.model = slice_str("\xff");
    CHECK(says(body_of(&e), "\"?\""));
}

TEST(numbers_have_three_decimals)
{
    struct example e = example();
    e.receipt.decision.chosen.cost = -0.0627f;
    CHECK(says(body_of(&e), ATTRIBUTE("warmpath.cost", "doubleValue", "-0.063")));
    e.receipt.decision.chosen.cost = 1234567.0f;
    CHECK(says(body_of(&e), ATTRIBUTE("warmpath.cost", "doubleValue", "1234567.000")));
    e.receipt.decision.chosen.cost = INFINITY;
    CHECK(!says(body_of(&e), "warmpath.cost"));
    e.receipt.decision.chosen.wait_ms = NAN;
    CHECK(!says(body_of(&e), "warmpath.predicted_ms"));
}

TEST(a_full_batch_takes_no_more_spans_and_stays_valid)
{
    struct example e = example();
    struct span_json json;
    enum { small = 8192 };
    span_json_begin(&json, space, small, "router", "1.2");
    while (span_json_add(&json, whole(&e))) {
        ASSERT(json.span_count < 100);
    }
    CHECK(json.span_count >= 1);
    uint32_t count = json.span_count;
    CHECK(!span_json_add(&json, whole(&e)));
    CHECK_EQ(json.span_count, count);
    struct slice text = span_json_end(&json);
    CHECK(text.size <= small && is_json(text));
    space[text.size] = '\0';
    uint32_t found = 0;
    for (const char *at = space; (at = strstr(at, "\"spanId\"")) != NULL; at++) {
        found++;
    }
    CHECK_EQ(found, count);
}

TEST(a_batch_of_any_size_is_valid_json)
{
    struct example e = example();
    for (size_t room = span_json_frame_size_max; room < 6000; room += 7) {
        struct span_json json;
        span_json_begin(&json, space, room, "router", "1.2");
        span_json_add(&json, whole(&e));
        span_json_add(&json, whole(&e));
        struct slice text = span_json_end(&json);
        CHECK(text.size <= room && is_json(text));
    }
}

TEST(the_largest_span_fits_into_its_limit)
{
    static char text[receipt_text_max];
    memset(text, 0x01, sizeof(text)); // each byte becomes six
    struct example e = example();
    e.parts = (struct receipt_parts){.id = slice_of(text, sizeof(text)),
                                     .model = slice_of(text, sizeof(text)),
                                     .url = slice_of(text, sizeof(text)),
                                     .path = slice_of(text, sizeof(text))};
    e.receipt.stage_ns[RECEIPT_STAGE_QUEUE] = UINT32_MAX;
    struct span_json json;
    span_json_begin(&json, space, span_json_span_size_max + span_json_frame_size_max, "router",
                    "1.2");
    CHECK(json.out.size < span_json_frame_size_max);
    CHECK(span_json_add(&json, whole(&e)));
}
