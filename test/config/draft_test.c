// SPDX-License-Identifier: Apache-2.0

#include "config/draft_internal.h"
#include "outcome.h"

#include <errno.h>
#include <stdlib.h>

#define BACKEND "backends: [http://a]\n"

struct room {
    struct config_draft draft;
    struct config_error error;
    struct config config;
    struct config_place places[128];
    _Alignas(16) uint8_t bytes[4096];
};

static struct room *room_create(size_t capacity)
{
    struct room *room = calloc(1, sizeof(*room));
    ASSERT(room != NULL && config_options.count <= ARRAY_COUNT(room->places));
    room->draft = (struct config_draft){
        .config = &room->config,
        .memory = {.bytes = room->bytes, .capacity = capacity},
        .file = "f",
        .read = read_secret_path,
        .error = &room->error,
        .places = room->places,
    };
    return room;
}

TEST(defaults_have_no_place_and_values_do)
{
    struct room *room = room_create(sizeof(room->bytes));
    struct config_binding program = config_draft_binding(&room->draft);
    const struct config_option *workers = config_option_find(&config_options, "workers");
    struct config_value value = {.text = "9", .place = {.line = 3, .column = 4}};

    enum status defaults = config_assign_defaults(&program);
    bool was_set = config_place_is_set(config_place_of(&program, "workers"));
    enum status assigned = config_assign(&program, workers, &value);
    struct config_place place = config_place_of(&program, "workers");
    uint32_t stored = room->config.workers;
    free(room);

    CHECK_EQ(defaults, STATUS_OK);
    CHECK(!was_set);
    CHECK_EQ(assigned, STATUS_OK);
    CHECK_EQ(stored, 9);
    CHECK_EQ(place.line, 3);
    CHECK_EQ(place.column, 4);
}

TEST(a_refused_value_leaves_field_and_place_alone)
{
    struct room *room = room_create(sizeof(room->bytes));
    struct config_binding program = config_draft_binding(&room->draft);
    const struct config_option *workers = config_option_find(&config_options, "workers");
    room->config.workers = 5;
    struct config_value value = {.text = "many", .place = {.line = 3, .column = 4}};

    enum status status = config_assign(&program, workers, &value);
    uint32_t stored = room->config.workers;
    bool is_set = config_place_is_set(config_place_of(&program, "workers"));
    struct config_error error = room->error;
    free(room);

    CHECK_EQ(status, STATUS_MALFORMED);
    CHECK_EQ(stored, 5);
    CHECK(!is_set);
    CHECK_EQ(error.line, 3);
    CHECK_EQ(error.column, 4);
    CHECK_STR(error.file, "f");
}

TEST(ends_cleanly_wherever_the_memory_ends)
{
    const struct config_option *backends = config_option_find(&config_options, "backends");
    const struct config_option *paths = config_option_find(&config_options, "blocked_paths");
    const struct config_value values[] = {{.text = "/a"}, {.text = "/b"}};
    struct config_place nowhere = {0};
    int refused = 0;

    for (size_t capacity = 0; capacity <= 1024; capacity += 16) {
        struct room *room = room_create(capacity);
        struct config_binding program = config_draft_binding(&room->draft);
        enum status status = config_assign_defaults(&program);
        if (status == STATUS_OK) {
            status = config_assign_list(&program, paths, nowhere, values, 2);
        }
        if (status == STATUS_OK) {
            status = config_assign_items(&room->draft, backends, nowhere, 1);
        }
        bool used_too_much = room->draft.memory.used > capacity;
        refused += status == STATUS_TOO_LARGE;
        free(room);
        CHECK(!used_too_much);
        CHECK(status == STATUS_TOO_LARGE || status == STATUS_OK);
    }
    CHECK(refused > 10 && refused < 60);
}

TEST(a_secret_comes_from_a_file_without_its_line_break)
{
    CHECK_STR(outcome(BACKEND "api_key_file: \"/secret/sk-1\\n\"\n"),
              "f:2:15: api_key_file: must not hold control characters");
    CHECK_STR(outcome(BACKEND "api_key_file: /secret/sk-1\n"), "ok");
    CHECK_STR(config->api_key, "sk-1");
    CHECK_STR(outcome("backends: [{url: http://a, api_key_file: /secret/sk-2}]\n"), "ok");
    CHECK_STR(config->backends[0].api_key, "sk-2");
    CHECK(config->api_key == NULL);
}

static const char *content;
static enum status read_content(const char *path, void *bytes, size_t capacity, size_t *size)
{
    (void)path;
    if (content == NULL) {
        errno = EACCES;
        return STATUS_IO;
    }
    if (strlen(content) > capacity) {
        return STATUS_TOO_LARGE;
    }
    *size = strlen(content);
    memcpy(bytes, content, *size);
    return STATUS_OK;
}

static const char *outcome_of_secret(const char *text)
{
    struct config_source source = {.read = read_content};
    content = text;
    return outcome_of(&source, slice_str(BACKEND "api_key_file: /k\n"), "f");
}

TEST(a_file_that_holds_no_secret_is_refused_without_showing_it)
{
    const char *shape =
        "f:2:15: api_key_file: \"/k\" must hold 1 to 4096 visible ASCII characters, "
        "without spaces, and nothing else";
    CHECK_STR(outcome_of_secret("sk-1\r\n"), "ok");
    CHECK_STR(config->api_key, "sk-1");
    CHECK_STR(outcome_of_secret(""), shape);
    CHECK_STR(outcome_of_secret("\n"), shape);
    CHECK_STR(outcome_of_secret("hush hush"), shape);
    CHECK_STR(outcome_of_secret("hush\nhush"), shape);
    CHECK_STR(outcome_of_secret(NULL),
              "f:2:15: api_key_file: cannot read \"/k\": Permission denied");

    static char large[5000];
    memset(large, 'x', 4096);
    CHECK_STR(outcome_of_secret(large), "ok");
    memset(large, 'x', sizeof(large) - 1);
    CHECK_STR(outcome_of_secret(large), shape);
}

TEST(a_secret_is_given_one_way)
{
    CHECK_STR(outcome(BACKEND "api_key: k\napi_key_file: /secret/x\n"),
              "f:3:15: api_key_file: api_key is set as well; keep one");
    CHECK_STR(outcome(BACKEND "admin: {token_file: /secret/x, token: t}\n"),
              "f:2:39: admin.token: admin.token_file is set as well; keep one");
    CHECK_STR(outcome_with(BACKEND, FLAGS("--api-key", "k", "--api-key-file", "/secret/x")),
              "command line: --api-key-file: api_key is set as well; keep one");
}

TEST(a_secret_on_the_command_line_replaces_either_way_of_the_file)
{
    CHECK_STR(outcome_with(BACKEND "api_key: k\n", FLAGS("--api-key-file", "/secret/x")), "ok");
    CHECK_STR(config->api_key, "x");
    CHECK_STR(outcome_with(BACKEND "api_key_file: /secret/x\n", FLAGS("--api-key", "k")), "ok");
    CHECK_STR(config->api_key, "k");
}
