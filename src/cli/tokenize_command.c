// SPDX-License-Identifier: Apache-2.0
//
// tokenize -- shows what a tokenizer makes of a text, or of a chat request with its template.

#include "base/base.h"
#include "config/config_file.h"
#include "config/option/command.h"
#include "config/option/flags.h"
#include "config/option/option.h"
#include "json/json_writer.h"
#include "keeper/dialects.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    text_size_max = 64 << 20,
    piece_size_max = 4096, // printed of one token
    memo_size = 256 << 20,
};

struct tokenize_options {
    const char *tokenizer;
    const char *pattern;
    const char *chat;
    const char *file;
    const char *engine;
    const char *chat_template;
    struct flag_list words;
    bool ids_only;
    bool text_only;
    bool without_special;
};

static enum flags_verdict tokenize_read_flags(struct tokenize_options *options, int word_count,
                                              char **words)
{
    const struct flag flags[] = {
        {"", FLAG_WORDS, &options->words, "TEXT", "The text; words are joined with spaces."},
        {"tokenizer", FLAG_TEXT, &options->tokenizer, "DIR",
         "A directory with tokenizer.json, and tokenizer_config.json for chats."},
        {"pattern", FLAG_TEXT, &options->pattern, "NAME",
         "DIR is a file of ranks, as tiktoken has them: gpt2, cl100k, o200k or kimi."},
        {"chat", FLAG_TEXT, &options->chat, "FILE",
         "The body of a chat request; - is standard input."},
        {"file", FLAG_TEXT, &options->file, "FILE", "The text is in there; - is standard input."},
        {"engine", FLAG_TEXT, &options->engine, "NAME",
         "Whose way with chats is followed: vllm, sglang, trtllm or plain; vllm."},
        {"chat-template", FLAG_TEXT, &options->chat_template, "FILE",
         "Instead of the directory's."},
        {"no-special", FLAG_SWITCH, &options->without_special, "",
         "Without what the tokenizer puts around a text, such as <s>."},
        {"ids", FLAG_SWITCH, &options->ids_only, "", "Print the ids alone, as JSON."},
        {"text", FLAG_SWITCH, &options->text_only, "",
         "Print the text that the template gives, alone."},
    };
    return flags_read("tokenize", flags, ARRAY_COUNT(flags), word_count, words);
}

static int tokenize_fail(const char *what, const char *why)
{
    fprintf(stderr, "warmpath tokenize: %s: %s\n", what, why);
    return COMMAND_FAILED;
}

// As the configuration has them.
static bool engine_of(const char *name, enum config_engine *out)
{
    const struct config_option *option = config_option_find(&config_tokenizer_options, "engine");
    uint8_t space[128];
    struct text why = text_over(space, sizeof(space));
    return option->kind->read(option, name, out, &why);
}

static bool tokenize_read_whole(const char *path, uint8_t *space, size_t *size)
{
    const char *name = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    enum status status = config_file_read(name, space, text_size_max, size);
    if (status != STATUS_OK) {
        tokenize_fail(path, status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
    }
    return status == STATUS_OK;
}

// The body of a request: the chat as it is, or a completion with the text.
static bool tokenize_read_body(const struct tokenize_options *options, uint8_t *space,
                               struct text *body)
{
    size_t size = 0;

    if (options->chat != NULL || options->file != NULL) {
        if (!tokenize_read_whole(options->chat != NULL ? options->chat : options->file, space,
                                 &size)) {
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
    json_put_bool(&json, "add_special_tokens", !options->without_special);
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
    } else if (options->text_only) {
        struct slice text = token_reader_text(reader);
        fwrite(text.bytes, 1, text.size, stdout);
    } else if (options->ids_only) {
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
    struct tokenize_options options = {.engine = "vllm"};
    struct config_tokenizer row = {0};
    struct config config = {.tokenizers = &row, .tokenizer_count = 1, .tokens.memo = memo_size};
    struct dialect_set *set = NULL;

    enum flags_verdict verdict = tokenize_read_flags(&options, word_count, words);
    if (verdict != FLAGS_GOOD) {
        return verdict == FLAGS_HELPED ? COMMAND_OK : COMMAND_USAGE;
    }
    uint32_t sources = (options.chat != NULL) + (options.file != NULL) + (options.words.count > 0);
    if (options.tokenizer == NULL || sources != 1 || !engine_of(options.engine, &row.engine)) {
        fprintf(stderr, "warmpath tokenize: give --tokenizer DIR, and a text, --file or --chat; "
                        "--help says more\n");
        return COMMAND_USAGE;
    }
    log_set_level(LOG_LEVEL_WARN);
    row.path = options.tokenizer;
    row.pattern = options.pattern;
    row.chat_template = options.chat_template;
    if (dialects_open(&config, 1, &set) != STATUS_OK || set == NULL) {
        return COMMAND_FAILED; // the reason was said
    }
    uint8_t *space = malloc(text_size_max);
    uint8_t *body_space = malloc(2 * (size_t)text_size_max);
    ASSERT(space != NULL && body_space != NULL);
    struct text body = text_over(body_space, 2 * (size_t)text_size_max);
    int code = tokenize_read_body(&options, space, &body)
                   ? tokenize_show(&options, set, text_slice(&body))
                   : COMMAND_FAILED;
    free(space);
    free(body_space);
    dialects_close(&set);
    return code;
}
