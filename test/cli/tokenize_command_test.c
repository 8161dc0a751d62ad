// SPDX-License-Identifier: Apache-2.0

#include "cli/child.h"
#include "cli/tiny_files.h"
#include "config/option/command.h"
#include "test.h"

static struct child child;
static struct tiny_files files;

static void set_up(void)
{
    tiny_files_make(&files);
    tiny_write(&files, "chat_template.jinja", slice_str(TINY_TEMPLATE));
    tiny_write(&files, "body.json",
               slice_str("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}"));
}

static void tear_down(void)
{
    child_close(&child);
    tiny_files_remove(&files);
}

static int tokenize(const char *const *words)
{
    child_start(&child, command_tokenize, words);
    return child_finish(&child);
}

// Returns standard output, or standard error of a failure.
static const char *printed(const char *const *words)
{
    int code = tokenize(words);
    return child_text(code == COMMAND_OK ? child.out : child.err);
}

#define DIRECTORY "--tokenizer", files.directory

TEST(words_are_a_text_with_spaces_between_them)
{
    set_up();
    CHECK_STR(printed(WORDS(DIRECTORY, "--ids", "a", "b")), "[258, 97, 32, 98]\n");
    tear_down();
}

TEST(special_tokens_can_be_left_out)
{
    set_up();
    CHECK_STR(printed(WORDS(DIRECTORY, "--ids", "--no-special", "ab")), "[97, 98]\n");
    tear_down();
}

TEST(a_text_can_come_from_a_file_as_it_stands)
{
    set_up();
    tiny_write(&files, "other.jinja", slice_str("a\"\\\n<s>"));
    CHECK_STR(printed(WORDS(DIRECTORY, "--ids", "--file", tiny_path(&files, "other.jinja"))),
              "[258, 97, 34, 92, 10, 258]\n");
    tear_down();
}

TEST(a_chat_becomes_the_text_of_its_template)
{
    set_up();
    CHECK_STR(printed(WORDS(DIRECTORY, "--text", "--chat", tiny_path(&files, "body.json"))),
              "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
    child_close(&child);
    CHECK_STR(printed(WORDS(DIRECTORY, "--ids", "--chat", tiny_path(&files, "body.json"))),
              "[256, 117, 115, 101, 114, 10, 72, 105, 257, 10, 256, 97, 115, 115, 105, 115, 116, "
              "97, 110, 116, 10]\n");
    child_close(&child);
    tiny_write(&files, "other.jinja", slice_str("{{ messages[0].content }}!"));
    CHECK_STR(printed(WORDS(DIRECTORY, "--text", "--chat", tiny_path(&files, "body.json"),
                            "--chat-template", tiny_path(&files, "other.jinja"))),
              "Hi!");
    tear_down();
}

TEST(each_token_has_a_line_and_the_last_one_counts_them)
{
    set_up();
    const char *text = printed(WORDS(DIRECTORY, "a\""));
    CHECK(strncmp(text,
                  "     258  \"<s>\"\n      97  \"a\"\n      34  \"\\\"\"\n3 tokens of 2 bytes in ",
                  60) == 0);
    tear_down();
}

TEST(a_command_line_that_is_wrong_is_refused)
{
    set_up();
    const char *const bad[][8] = {
        {DIRECTORY},
        {"text"},
        {DIRECTORY, "text", "--file", "/dev/null"},
        {DIRECTORY, "--chat", "/dev/null", "--file", "/dev/null"},
        {DIRECTORY, "text", "--engine", "tgi"},
        {DIRECTORY, "text", "--nope"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(tokenize(bad[i]), COMMAND_USAGE);
        CHECK_STR(child_text(child.out), "");
        CHECK(strncmp(child_text(child.err), "warmpath tokenize: ", 19) == 0);
        child_close(&child);
    }
    child_start(&child, command_tokenize, WORDS("--help"));
    CHECK_EQ(child_finish(&child), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "\n  TEXT\n") != NULL);
    tear_down();
}

TEST(unreadable_files_and_templates_are_reported)
{
    set_up();
    tiny_write(&files, "other.jinja", slice_str("{{ raise_exception('no such role') }}"));
    const struct {
        const char *words[8];
        const char *reason;
    } bad[] = {
        {{"--tokenizer", "/nonexistent", "x"}, "No such file or directory"},
        {{DIRECTORY, "--file", "/nonexistent"}, "/nonexistent: No such file or directory"},
        {{DIRECTORY, "--chat", "/dev/null"}, "/dev/null: "},
        {{DIRECTORY, "--chat", tiny_path(&files, "body.json"), "--chat-template",
          tiny_path(&files, "other.jinja")},
         "no such role"},
        {{"--tokenizer", files.directory, "x", "--chat-template", "/nonexistent"},
         "/nonexistent: No such file or directory"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(tokenize(bad[i].words), COMMAND_FAILED);
        CHECK(strstr(child_text(child.err), bad[i].reason) != NULL);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
    tiny_write(&files, "tokenizer.json", slice_str("{}"));
    CHECK_EQ(tokenize(WORDS(DIRECTORY, "x")), COMMAND_FAILED);
    CHECK(strstr(child_text(child.err), "tokenizer.json: ") != NULL);
    tear_down();
}
