// SPDX-License-Identifier: Apache-2.0
//
// tokenize -- shows what a tokenizer makes of a text, or of a chat request with its template.

#include "base/base.h"
#include "config/config.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "json/json_writer.h"
#include "keeper/dialects.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    text_size_max = 64 << 20,
    piece_size_max = 4096, // printed of one token
    memo_size = 256 << 20,
};

struct tokenize_options {
    struct config_tokenizer tokenizer;
    const char *chat;
    const char *file;
    struct flag_list words;
    bool ids;
    bool text;
    bool no_special;
};

#define OWNER struct tokenize_options
static const struct config_option tokenize_flags[] = {
    FLAG_ROW("", words, any, .is_list = true, .help = "The text; words are joined with spaces."),
    FLAG_ROW("tokenizer", tokenizer.path, file,
             .help = "A directory with tokenizer.json, and tokenizer_config.json for chats."),
    FLAG_ROW("pattern", tokenizer.pattern, name,
             .help = "The tokenizer is a file of ranks, as tiktoken has them: gpt2, cl100k, o200k "
                     "or kimi."),
    FLAG(chat, file, NULL, "The body of a chat request; - is standard input."),
    FLAG(file, file, NULL, "A file with the text; - is standard input."),
    FLAG_ROW("engine", tokenizer.engine, choice, .fallback = "vllm", .choices = CONFIG_ENGINES,
             .help = "The engine whose preparation of chats is followed."),
    FLAG_ROW("chat-template", tokenizer.chat_template, file,
             .help = "A template to use instead of the directory's."),
    FLAG(no_special, toggle, NULL, "Without the tokens that a tokenizer puts around a text."),
    FLAG(ids, toggle, NULL, "Print the token ids alone, as JSON."),
    FLAG(text, toggle, NULL, "Print the text that the template renders, alone."),
};
static const struct config_option_table tokenize_table = FLAG_TABLE("tokenize", tokenize_flags);
#undef OWNER

static int tokenize_fail(const char *what, const char *why)
{
    command_fail("tokenize", what, why);
    return COMMAND_FAILED;
}

// The body of a request: the chat as it is, or a completion with the text.
static bool tokenize_read_body(const struct tokenize_options *options, uint8_t *space,
                               struct text *body)
{
    size_t size = 0;

    if (options->chat != NULL || options->file != NULL) {
        if (!command_read_file("tokenize", options->chat != NULL ? options->chat : options->file,
                               space, text_size_max, &size)) {
            return false;
        }
    } else {
        struct text joined = text_over(space, text_size_max);
        for (uint32_t i = 0; i < options->words.count; i++) {
            text_add_str(&joined, i > 0 ? " " : "");
            text_add_str(&joined, options->words.items[i]);
        }
        size = joined.size;
    }
    if (options->chat != NULL) {
        text_add(body, slice_of(space, size));
        return true;
    }
    struct json_writer json = json_writer_over(body);
    json_begin_object(&json, NULL);
    json_put_bool(&json, "add_special_tokens", !options->no_special);
    json_put_string(&json, "prompt", slice_of(space, size));
    json_end(&json);
    return true;
}

static void print_ids(const struct token_result *result)
{
    printf("[");
    for (uint32_t i = 0; i < result->count; i++) {
        printf("%s%u", i > 0 ? ", " : "", result->ids[i]);
    }
    printf("]\n");
}

static void print_pieces(const struct token_result *result)
{
    uint8_t space[2 * piece_size_max];

    for (uint32_t i = 0; i < result->count; i++) {
        struct slice piece = tokenizer_token(result->dialect->tokenizer, result->ids[i]);
        struct text line = text_over(space, sizeof(space));
        piece.size = piece.size < piece_size_max / 4 ? piece.size : piece_size_max / 4;
        text_add_json(&line, piece);
        printf("%8u  %.*s\n", result->ids[i], (int)line.size, (const char *)space);
    }
}

// The first time, with the words known, and with the text remembered.
static enum status encode(struct token_thread *thread, const struct token_request *request,
                          double took_us[2], struct token_reader **reader,
                          struct token_result *result)
{
    enum status status = STATUS_OK;
    *reader = token_reader_create(thread, text_size_max);
    ASSERT(*reader != NULL);
    for (uint32_t i = 0; i < 2 && status == STATUS_OK; i++) {
        uint64_t begun_ns = clock_monotonic_ns();
        status = token_reader_begin(*reader, request, SIZE_MAX, result);
        took_us[i] = (double)(clock_monotonic_ns() - begun_ns) / 1000;
    }
    return status;
}

static int tokenize_show(const struct tokenize_options *options, struct dialect_set *set,
                         struct slice body)
{
    struct token_thread *thread = token_thread_create(set, 0);
    struct token_reader *reader = NULL;
    struct token_result result = {0};
    double took_us[2] = {0};
    int code = COMMAND_OK;

    ASSERT(thread != NULL);
    enum status status = encode(thread,
                                &(struct token_request){
                                    .dialect = set->dialects[0],
                                    .api = options->chat != NULL ? PROMPT_CHAT : PROMPT_COMPLETION,
                                    .body = body,
                                    .wall_s = clock_wall_ms() / 1000,
                                    .any_feature = true,
                                },
                                took_us, &reader, &result);
    if (status != STATUS_OK) {
        code = tokenize_fail(options->chat != NULL ? options->chat : "the text",
                             token_reader_why(reader));
    } else if (options->text) {
        struct slice text = token_reader_text(reader);
        fwrite(text.bytes, 1, text.size, stdout);
    } else if (options->ids) {
        print_ids(&result);
    } else {
        print_pieces(&result);
        printf("%u tokens of %zu bytes in %.1f us; again, from the memo: %.1f us\n", result.count,
               token_reader_text(reader).size, took_us[0], took_us[1]);
    }
    token_reader_destroy(&reader);
    token_thread_destroy(&thread);
    return code;
}

int command_tokenize(int word_count, char **words)
{
    struct tokenize_options options;
    struct config config = {
        .tokenizers = &options.tokenizer, .tokenizer_count = 1, .tokens.memo = memo_size};
    struct dialect_set *set = NULL;

    int code = flags_read(&tokenize_table, word_count, words, &options);
    if (code != FLAGS_READ) {
        return code;
    }
    uint32_t sources = (options.chat != NULL) + (options.file != NULL) + (options.words.count > 0);
    if (options.tokenizer.path == NULL || sources != 1) {
        command_fail("tokenize",
                     "give --tokenizer DIR, and a text, --file or --chat; --help says more", NULL);
        return COMMAND_USAGE;
    }
    log_set_level(LOG_LEVEL_WARN);
    if (dialects_open(&config, 1, &set) != STATUS_OK || set == NULL) {
        return COMMAND_FAILED; // the reason was said
    }
    uint8_t *space = malloc(text_size_max);
    uint8_t *body_space = malloc(2 * (size_t)text_size_max);
    ASSERT(space != NULL && body_space != NULL);
    struct text body = text_over(body_space, 2 * (size_t)text_size_max);
    code = tokenize_read_body(&options, space, &body)
               ? tokenize_show(&options, set, text_slice(&body))
               : COMMAND_FAILED;
    free(space);
    free(body_space);
    dialects_close(&set);
    return code;
}
