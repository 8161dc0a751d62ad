// SPDX-License-Identifier: Apache-2.0

#include "keeper/dialects.h"

#include "cli/tiny_files.h"
#include "sys/log.h"
#include "test.h"

static struct tiny_files files;
static char error[dialect_error_size];

// The text that a chat of one user becomes; why there is none, otherwise.
static const char *render(struct dialect *dialect)
{
    static char text[256];
    struct dialect_set set = {.dialects = {dialect}, .count = 1};
    struct token_result result;
    set.memo = memo_create(
        &(struct memo_options){.memory = 1 << 20, .thread_count = 1, .secret = {{1, 2}}});
    struct token_thread *thread = token_thread_create(&set, 0);
    struct token_reader *reader = token_reader_create(thread, 4096);
    struct token_request request = {
        .dialect = dialect,
        .api = PROMPT_CHAT,
        .body = slice_str("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"),
        .any_feature = true,
    };
    enum status status = token_reader_begin(reader, &request, SIZE_MAX, &result);
    struct slice rendered =
        status == STATUS_OK ? token_reader_text(reader) : slice_str(token_reader_why(reader));
    snprintf(text, sizeof(text), "%.*s", (int)rendered.size, (const char *)rendered.bytes);
    token_reader_destroy(&reader);
    token_thread_destroy(&thread);
    memo_destroy(&set.memo);
    return text;
}

// The chat as rendered with `row`, or the error of loading it.
static const char *rendered_by(struct config_tokenizer row)
{
    static char text[dialect_error_size];
    struct dialect *dialect = NULL;
    row.path = files.directory;
    if (dialects_load(&row, &dialect, error) != STATUS_OK) {
        return error;
    }
    snprintf(text, sizeof(text), "%s", render(dialect));
    dialect_destroy(&dialect);
    return text;
}

TEST(the_template_is_the_named_file_or_the_directorys_or_the_configurations)
{
    tiny_files_make(&files);
    CHECK_STR(rendered_by((struct config_tokenizer){0}), "the model has no chat template");
    tiny_write(&files, "tokenizer_config.json",
               slice_str("{\"chat_template\":\"config {{ messages[0].content }}\"}"));
    CHECK_STR(rendered_by((struct config_tokenizer){0}), "config Hi");
    tiny_write(&files, "chat_template.jinja", slice_str("file {{ messages[0].content }}"));
    CHECK_STR(rendered_by((struct config_tokenizer){0}), "file Hi");
    tiny_write(&files, "other.jinja", slice_str("other {{ messages[0].content }}"));
    CHECK_STR(
        rendered_by((struct config_tokenizer){.chat_template = tiny_path(&files, "other.jinja")}),
        "other Hi");
    tiny_files_remove(&files);
}

TEST(settings_of_a_tokenizer_reach_it)
{
    static const char *models[] = {"m", "n"};
    struct config_tokenizer row = {
        .models = {.items = models, .count = 2},
        .engine = CONFIG_ENGINE_SGLANG,
        .template_kwargs = "{\"greeting\":\"Moin\"}",
        .utc_offset = 3600,
        .trust = true,
        .forward_ids = true,
    };
    struct dialect *dialect = NULL;
    tiny_files_make(&files);
    tiny_write(&files, "chat_template.jinja", slice_str("{{ greeting }}"));
    row.path = files.directory;
    CHECK_EQ(dialects_load(&row, &dialect, error), STATUS_OK);
    CHECK_STR(dialect->name, files.directory);
    CHECK(dialect_speaks_for(dialect, slice_str("n")));
    CHECK(!dialect_speaks_for(dialect, slice_str("o")));
    CHECK_EQ(dialect->engine, DIALECT_SGLANG);
    CHECK_STR(render(dialect), "Moin");
    CHECK_EQ(dialect->utc_offset_s, 3600);
    CHECK(dialect->is_trusted && dialect->forwards_ids);
    dialect_destroy(&dialect);
    tiny_files_remove(&files);
}

TEST(a_file_that_must_be_there_is_named)
{
    struct dialect *dialect = NULL;
    tiny_files_make(&files);
    struct config_tokenizer row = {.path = files.directory, .chat_template = "/nonexistent/x"};
    CHECK_EQ(dialects_load(&row, &dialect, error), STATUS_IO);
    CHECK_STR(error, "/nonexistent/x: No such file or directory");
    row = (struct config_tokenizer){.path = "/nonexistent"};
    CHECK_EQ(dialects_load(&row, &dialect, error), STATUS_IO);
    CHECK_STR(error, "/nonexistent/tokenizer.json: No such file or directory");
    CHECK(dialect == NULL);
    tiny_files_remove(&files);
}

TEST(an_optional_file_that_is_there_must_be_good)
{
    struct dialect *dialect = NULL;
    tiny_files_make(&files);
    tiny_write(&files, "tokenizer_config.json", slice_str("{\"chat_template\":"));
    struct config_tokenizer row = {.path = files.directory};
    CHECK_EQ(dialects_load(&row, &dialect, error), STATUS_MALFORMED);
    CHECK(strncmp(error, "tokenizer_config.json: ", 23) == 0);
    tiny_files_remove(&files);
    // One that cannot be read is not one that is missing.
    tiny_files_make(&files);
    CHECK_EQ(mkdir(tiny_path(&files, "chat_template.jinja"), 0700), 0);
    CHECK_EQ(dialects_load(&row, &dialect, error), STATUS_IO);
    CHECK(strstr(error, "chat_template.jinja: ") != NULL);
    CHECK_EQ(rmdir(tiny_path(&files, "chat_template.jinja")), 0);
    tiny_files_remove(&files);
}

static enum status open_rows(struct config_tokenizer *rows, uint32_t count,
                             struct dialect_set **set)
{
    struct config config = {.tokenizers = rows, .tokenizer_count = count, .tokens.memo = 1 << 20};
    log_set_level(LOG_LEVEL_ERROR);
    return dialects_open(&config, 1, set);
}

TEST(without_tokenizers_the_set_is_null)
{
    struct dialect_set *set = NULL;
    CHECK_EQ(open_rows(NULL, 0, &set), STATUS_OK);
    CHECK(set == NULL);
}

TEST(a_tokenizer_that_is_refused_is_left_out_and_the_others_are_not)
{
    struct tiny_files bad;
    struct dialect_set *set = NULL;
    tiny_files_make(&files);
    tiny_files_make(&bad);
    tiny_write(&bad, "tokenizer.json", slice_str("{\"model\":{\"type\":\"Unigram\"}}"));
    struct config_tokenizer rows[] = {{.path = bad.directory}, {.path = files.directory}};
    CHECK_EQ(open_rows(rows, 2, &set), STATUS_OK);
    CHECK(set != NULL);
    CHECK_EQ(set->count, 1);
    CHECK_STR(set->dialects[0]->name, files.directory);
    CHECK(set->memo != NULL);
    dialects_close(&set);
    CHECK(set == NULL);
    CHECK_EQ(open_rows(rows, 1, &set), STATUS_OK);
    CHECK(set == NULL);
    tiny_files_remove(&files);
    tiny_files_remove(&bad);
}

TEST(a_directory_that_is_not_there_is_an_error)
{
    struct dialect_set *set = NULL;
    tiny_files_make(&files);
    struct config_tokenizer rows[] = {{.path = files.directory}, {.path = "/nonexistent"}};
    CHECK_EQ(open_rows(rows, 2, &set), STATUS_IO);
    CHECK(set == NULL);
    tiny_files_remove(&files);
}
