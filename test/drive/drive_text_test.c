// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_text.h"

#include "base/rng.h"
#include "base/text.h"
#include "drive/drive_memory.h"
#include "json/json.h"
#include "test.h"

#include <stdlib.h>

enum { body_size = 65536 };

static const struct drive_shape chat = {.api = DRIVE_CHAT, .model = "m", .stream = true};
static const struct drive_shape completions = {.api = DRIVE_COMPLETIONS, .model = "m"};
static const struct drive_shape ids = {.api = DRIVE_IDS, .model = "m"};

static struct work_item item_of(const struct piece *pieces, uint32_t count)
{
    struct work_item item = {.pieces = pieces, .piece_count = count, .output_tokens = 7};
    for (uint32_t i = 0; i < count; i++) {
        item.prompt_tokens += pieces[i].tokens;
    }
    return item;
}

// In one of two places by turns.  The room that was promised is enough, and it is JSON.
static const char *body_of(const struct drive_shape *shape, const struct work_item *item,
                           const struct drive_memory *memory)
{
    static char spaces[2][body_size + 1];
    static int next;
    char *space = spaces[next++ % 2];
    size_t room = drive_text_size(shape, item, memory);
    ASSERT(room <= body_size);
    struct text out = text_over(space, room);
    drive_text_write(shape, item, memory, &out);
    ASSERT(!out.overflow);
    struct json json = json_open(text_slice(&out));
    ASSERT(json_close(&json) == STATUS_OK);
    space[out.size] = '\0';
    return space;
}

static const char *prompt_of(const char *body)
{
    return strstr(body, "\"prompt\":\"") + strlen("\"prompt\":\"");
}

static const char *word(uint64_t id, uint32_t tokens)
{
    static char spaces[4][1024];
    static int next;
    char *space = spaces[next++ % 4];
    content_text(id, 0, tokens, space);
    space[(size_t)tokens * content_token_size] = '\0';
    return space;
}

TEST(prompts_with_equal_first_pieces_share_exactly_that_prefix)
{
    struct rng rng = {.state = 5};
    for (int round = 0; round < 200; round++) {
        struct piece a[8];
        struct piece b[8];
        uint32_t shared = rng_below(&rng, 8);
        size_t shared_size = 0;
        for (uint32_t i = 0; i < 8; i++) {
            a[i] = (struct piece){rng_below(&rng, 1000), 1 + rng_below(&rng, 64)};
            b[i] = i < shared ? a[i] : (struct piece){1000 + rng_below(&rng, 1000), 16};
            shared_size += i < shared ? a[i].tokens * (size_t)content_token_size : 0;
        }
        struct work_item one = item_of(a, 8);
        struct work_item other = item_of(b, 8);
        const char *left = prompt_of(body_of(&completions, &one, NULL));
        const char *right = prompt_of(body_of(&completions, &other, NULL));
        size_t equal = 0;
        while (left[equal] == right[equal] && left[equal] != '"') {
            equal++;
        }
        CHECK(equal >= shared_size);
        CHECK(equal < shared_size + 32);
    }
}

TEST(a_token_is_four_bytes)
{
    const struct piece pieces[] = {{1, 100}, {2, 23}};
    struct work_item item = item_of(pieces, 2);
    const char *prompt = prompt_of(body_of(&completions, &item, NULL));
    CHECK_EQ(strcspn(prompt, "\""), 123 * content_token_size);
}

TEST(of_several_pieces_the_first_is_the_system_message)
{
    const struct piece pieces[] = {{1, 2}, {2, 1}, {3, 1}};
    struct work_item item = item_of(pieces, 3);
    char expected[512];
    snprintf(expected, sizeof(expected),
             "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"%s\"},"
             "{\"role\":\"user\",\"content\":\"%s%s\"}],\"max_tokens\":7,\"stream\":true,"
             "\"stream_options\":{\"include_usage\":true}}",
             word(1, 2), word(2, 1), word(3, 1));
    CHECK_STR(body_of(&chat, &item, NULL), expected);
}

TEST(a_piece_alone_is_the_users)
{
    const struct piece pieces[] = {{1, 2}};
    struct work_item item = item_of(pieces, 1);
    const char *body = body_of(&chat, &item, NULL);
    CHECK(strstr(body, "[{\"role\":\"user\",\"content\":\"") != NULL);
    CHECK(strstr(body, "system") == NULL);
}

TEST(a_trace_is_one_message_so_that_a_short_prompt_begins_a_longer_one)
{
    const struct piece pieces[] = {{1, 8}, {2, 8}, {3, 8}};
    struct drive_shape shape = chat;
    shape.one_message = true;
    struct work_item whole = item_of(pieces, 3);
    struct work_item part = item_of(pieces, 1);
    const char *longer = body_of(&shape, &whole, NULL);
    const char *shorter = body_of(&shape, &part, NULL);
    size_t size = (size_t)(strstr(shorter, "\"}]") - shorter);
    CHECK(memcmp(longer, shorter, size) == 0);
}

TEST(a_response_is_repeated_verbatim)
{
    const struct piece pieces[] = {{1, 2}, {2, 1}, {3, 50}, {4, 1}};
    struct drive_memory *memory = drive_memory_create();
    struct work_item item = item_of(pieces, 4);
    item.session = 9;
    drive_memory_keep(memory, 9, 3, slice_str("so \\\"it\\\" is\\n"));
    char expected[512];
    snprintf(expected, sizeof(expected),
             "[{\"role\":\"system\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"%s\"},"
             "{\"role\":\"assistant\",\"content\":\"so \\\"it\\\" is\\n\"},"
             "{\"role\":\"user\",\"content\":\"%s\"}]",
             word(1, 2), word(2, 1), word(4, 1));
    CHECK(strstr(body_of(&chat, &item, memory), expected) != NULL);
    snprintf(expected, sizeof(expected), "%s%sso \\\"it\\\" is\\n%s\"", word(1, 2), word(2, 1),
             word(4, 1));
    CHECK(strncmp(prompt_of(body_of(&completions, &item, memory)), expected, strlen(expected)) ==
          0);
    drive_memory_destroy(&memory);
}

TEST(a_forgotten_response_is_generated_and_stays_the_assistants)
{
    const struct piece pieces[] = {{1, 2}, {2, 1}, {3, 5}, {4, 1}};
    struct drive_memory *memory = drive_memory_create();
    struct work_item item = item_of(pieces, 4);
    item.session = 9;
    drive_memory_keep(memory, 9, 3, slice_str(""));
    char expected[256];
    snprintf(expected, sizeof(expected), "{\"role\":\"assistant\",\"content\":\"%s\"}", word(3, 5));
    CHECK(strstr(body_of(&chat, &item, memory), expected) != NULL);
    drive_memory_destroy(&memory);
}

TEST(a_first_turn_without_a_system_prompt_is_a_prefix_of_the_second)
{
    const struct piece pieces[] = {{2, 4}, {3, 5}, {4, 1}};
    struct drive_memory *memory = drive_memory_create();
    struct work_item first = item_of(pieces, 1);
    struct work_item second = item_of(pieces, 3);
    first.session = second.session = 9;
    const char *before = body_of(&chat, &first, memory);
    drive_memory_keep(memory, 9, 3, slice_str("yes"));
    const char *after = body_of(&chat, &second, memory);
    size_t size = (size_t)(strstr(before, "]") - before);
    CHECK(memcmp(before, after, size) == 0);
    drive_memory_destroy(&memory);
}

// The text that ids stand for.
static size_t text_of_ids(const char *body, char *out)
{
    const char *at = strstr(body, "\"prompt\":[") + strlen("\"prompt\":[");
    size_t size = 0;
    while (*at != ']') {
        char *end = NULL;
        unsigned long id = strtoul(at, &end, 10);
        for (uint32_t i = 0; i < content_token_size; i++) {
            out[size++] = (char)(id >> (8 * i));
        }
        at = *end == ',' ? end + 1 : end;
    }
    out[size] = '\0';
    return size;
}

TEST(ids_stand_for_the_text_of_completions)
{
    struct rng rng = {.state = 6};
    char text[16384];
    for (int round = 0; round < 100; round++) {
        struct piece pieces[5];
        for (uint32_t i = 0; i < ARRAY_COUNT(pieces); i++) {
            pieces[i] = (struct piece){rng_below(&rng, 1000), 1 + rng_below(&rng, 150)};
        }
        struct work_item item = item_of(pieces, ARRAY_COUNT(pieces));
        const char *prompt = prompt_of(body_of(&completions, &item, NULL));
        size_t size = text_of_ids(body_of(&ids, &item, NULL), text);
        CHECK_EQ(size, item.prompt_tokens * (size_t)content_token_size);
        CHECK(memcmp(text, prompt, size) == 0 && prompt[size] == '"');
    }
    struct work_item nothing = item_of(NULL, 0);
    CHECK(strstr(body_of(&ids, &nothing, NULL), "\"prompt\":[],") != NULL);
}

TEST(ids_of_a_response_are_its_bytes_without_a_partial_token)
{
    const struct piece pieces[] = {{1, 2}, {3, 50}, {4, 1}};
    struct drive_memory *memory = drive_memory_create();
    struct work_item item = item_of(pieces, 3);
    char text[1024];
    char expected[256];
    item.session = 9;
    drive_memory_keep(memory, 9, 3, slice_str("abc def \xff\xff\xff\xffgh"));
    text_of_ids(body_of(&ids, &item, memory), text);
    snprintf(expected, sizeof(expected), "%sabc def \xff\xff\xff\xff%s", word(1, 2), word(4, 1));
    CHECK_STR(text, expected);
    drive_memory_destroy(&memory);
}

TEST(options_show_in_the_body)
{
    const struct piece pieces[] = {{1, 1}};
    struct work_item item = item_of(pieces, 1);
    struct drive_shape shape = {
        .api = DRIVE_CHAT, .model = "a\"b\x01", .ignore_eos = true, .names_sessions = true};
    CHECK(strstr(body_of(&shape, &item, NULL), "temperature") == NULL);
    shape.is_greedy = true;
    CHECK(strstr(body_of(&shape, &item, NULL), "\"temperature\":0,") != NULL);
    CHECK(strstr(body_of(&shape, &item, NULL), "user\":\"session") == NULL);
    item.session = 77;
    const char *body = body_of(&shape, &item, NULL);
    CHECK(strstr(body, "{\"model\":\"a\\\"b\\u0001\",") == body);
    CHECK(strstr(body, "\"ignore_eos\":true") != NULL);
    CHECK(strstr(body, "\"user\":\"session-77\"") != NULL);
    CHECK(strstr(body, "stream") == NULL);
}
