// SPDX-License-Identifier: Apache-2.0
//
// explain -- asks a running router where a request would go, and why; and how well it has predicted
// what its backends have cached.  Or where a past request went, and its outcome.
//
//     body of a request --> POST /explain      --> tables, or the document as it is
//     request id        --> GET /explain?id=   --> the same

#include "base/base.h"
#include "cli/admin_client.h"
#include "cli/explain_document.h"
#include "cli/explain_table.h"
#include "config/option/command.h"
#include "json/json_writer.h"
#include "sys/loop.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    // The limit of the admin API, less room for the head.
    body_size_max = (8 << 20) - 65536,
    path_size_max = 1024,
    id_size_max = 1024,
    turn_ms = 50,
};

struct explain_options {
    struct admin_client_options admin;
    const char *body;
    const char *prompt;
    const char *id;
    const char *model;
    const char *path;
    bool json;
};

#define OWNER struct explain_options
static const struct config_option explain_flags[] = {
    ADMIN_CLIENT_FLAGS("10s"),
    FLAG_ROW("", body, file, .help = "The body of a request; - is standard input."),
    FLAG(body, file, NULL, "The same."),
    FLAG(prompt, any, NULL, "Or the message of a user."),
    FLAG(id, any, NULL, "Or the x-request-id of a request that the router still keeps."),
    FLAG(model, any, NULL, "The model, with --prompt."),
    FLAG(path, path, "/v1/chat/completions", "Where the request would be sent."),
    FLAG(json, toggle, NULL, "Print the document as it is, instead of tables."),
};
static const struct config_option_table explain_table = FLAG_TABLE("explain", explain_flags);
#undef OWNER

struct explain_command {
    struct explain_options options;
    struct admin_client client;
    struct loop *loop;
    char target[admin_path_size_max];
    uint8_t *body;
    size_t body_size;
    bool is_done;
    int code;
};

static bool explain_say(const char *what, const char *why)
{
    return command_fail("explain", what, why);
}

static bool explain_is_good(struct explain_command *command)
{
    const struct explain_options *options = &command->options;

    if (!admin_client_check(&command->client, "explain", &options->admin)) {
        return false;
    }
    int given = (options->body != NULL) + (options->prompt != NULL) + (options->id != NULL);
    if (given != 1) {
        return explain_say("--body", "give either this or --prompt or --id");
    }
    if (options->id != NULL && (options->id[0] == '\0' || strlen(options->id) > id_size_max)) {
        return explain_say("--id", "is from 1 to 1024 characters");
    }
    if (options->model != NULL && options->prompt == NULL) {
        return explain_say("--model", "goes with --prompt; a body names its own");
    }
    return strlen(options->path) < path_size_max || explain_say("--path", "is too long");
}

// The body of a request with one user message.
static bool write_body(const struct explain_options *options, struct text *body)
{
    struct json_writer json = json_writer_over(body);

    json_begin_object(&json, NULL);
    if (options->model != NULL) {
        json_put_str(&json, "model", options->model);
    }
    if (strstr(options->path, "chat") != NULL) {
        json_begin_array(&json, "messages");
        json_begin_object(&json, NULL);
        json_put_str(&json, "role", "user");
        json_put_str(&json, "content", options->prompt);
        json_end(&json);
        json_end(&json);
    } else {
        json_put_str(&json, "prompt", options->prompt);
    }
    json_end(&json);
    return !body->overflow || explain_say("--prompt", "is too long");
}

static bool explain_read_body(struct explain_command *command)
{
    const struct explain_options *options = &command->options;

    if (options->id != NULL) {
        return true; // nothing is posted
    }
    command->body = malloc(body_size_max);
    if (command->body == NULL) {
        return explain_say("--body", "memory is short");
    }
    if (options->body != NULL) {
        return command_read_file("explain", options->body, command->body, body_size_max,
                                 &command->body_size) &&
               (command->body_size > 0 || explain_say(options->body, "is empty"));
    }
    struct text body = text_over(command->body, body_size_max);
    bool is_written = write_body(options, &body);
    command->body_size = body.size;
    return is_written;
}

static bool explain_show(const struct explain_command *command, struct slice response)
{
    struct explain_document document;
    enum status status = explain_document_read(response, &document);

    if (status != STATUS_OK) {
        return explain_say("the response",
                           status == STATUS_MALFORMED ? "not an explanation" : status_text(status));
    }
    if (command->options.json) {
        printf("%.*s\n", (int)response.size, (const char *)response.bytes);
    } else {
        explain_table_write(&document, stdout);
    }
    explain_document_free(&document);
    return command_flush() || explain_say("standard output", "cannot be written");
}

static void explain_responded(void *owner, const struct fetch_result *result)
{
    struct explain_command *command = owner;

    char why[admin_why_size];

    command->is_done = true;
    if (result->status == 200) {
        command->code = explain_show(command, result->body) ? COMMAND_OK : COMMAND_FAILED;
        return;
    }
    admin_client_why(result, why);
    if (result->status == 0) {
        explain_say(command->options.admin.url, why);
    } else {
        explain_say(why, NULL);
    }
}

// The id with all that could mean something else as %XX.
static void write_target(struct explain_command *command)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    const struct explain_options *options = &command->options;
    struct text target = text_over(command->target, sizeof(command->target) - 1);

    if (options->id == NULL) {
        text_add_format(&target, "/explain?path=%s", options->path);
    } else {
        text_add_str(&target, "/explain?id=");
    }
    for (const char *at = options->id; at != NULL && *at != '\0'; at++) {
        text_add_format(&target, strchr(plain, *at) != NULL ? "%c" : "%%%02X", (uint8_t)*at);
    }
    ASSERT(!target.overflow);
    command->target[target.size] = '\0';
}

static bool explain_ask(struct explain_command *command)
{
    write_target(command);
    if (admin_client_ask(&command->client, command->target,
                         slice_of(command->body, command->body_size), 0, explain_responded,
                         command) == NULL) {
        return explain_say("start", "memory or descriptors are short");
    }
    while (!command->is_done) {
        loop_turn(command->loop, turn_ms);
    }
    loop_turn(command->loop, 0); // frees closed connections
    return true;
}

int command_explain(int word_count, char **words)
{
    static struct explain_command command; // the program's one; too large for the stack

    int code = flags_read(&explain_table, word_count, words, &command.options);
    if (code != FLAGS_READ) {
        return code;
    }
    if (!explain_is_good(&command)) {
        return COMMAND_USAGE;
    }
    command.code = COMMAND_FAILED;
    if (loop_create(&command.loop) != STATUS_OK) {
        explain_say("start", "memory or descriptors are short");
    } else if (explain_read_body(&command) && admin_client_open(&command.client, command.loop)) {
        explain_ask(&command);
    }
    admin_client_close(&command.client);
    loop_destroy(&command.loop);
    free(command.body);
    return command.code;
}
