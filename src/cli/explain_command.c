// SPDX-License-Identifier: Apache-2.0
//
// explain -- asks a running router where a request would go, and why; and how well it has predicted what its
// backends have cached.  Or where one went, and what came of it.
//
//     body of a request --> POST /explain of the admin API       --> tables, or the document as it is
//     request id        --> GET /explain?id= of the admin API    --> the same

#include "base/base.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/explain_document.h"
#include "cli/explain_table.h"
#include "cli/flags.h"
#include "config/config_file.h"
#include "feed/fetch.h"
#include "fleet/backend.h"
#include "json/json.h"
#include "lab/drive_endpoint.h"
#include "sys/loop.h"
#include "sys/tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    // What the admin API takes, its head included.
    body_size_max = (8 << 20) - 65536,
    token_size_max = 4096,
    path_size_max = 1024,
    id_size_max = 1024,
    turn_ms = 50,
};

struct options {
    const char *admin;
    const char *token;
    const char *token_file;
    const char *body;
    const char *prompt;
    const char *id;
    const char *model;
    const char *path;
    const char *ca;
    double timeout_s;
    bool insecure;
    bool as_json;
};

struct command {
    struct options options;
    struct drive_endpoint endpoint;
    struct loop *loop;
    struct tls_context *tls;
    char authorization[token_size_max + 16];
    // Each byte of an id may be spelt with three.
    char target[drive_text_max + 3 * id_size_max + path_size_max + 32];
    uint8_t *body;
    size_t body_size;
    bool is_done;
    int code;
};

static enum flags_verdict read_flags(struct options *options, int word_count, char **words)
{
    const struct flag flags[] = {
        {"admin", FLAG_TEXT, &options->admin, "URL",
         "The router's admin.listen, as http://host:port."},
        {"token-file", FLAG_TEXT, &options->token_file, "FILE", "A file that holds its token."},
        {"token", FLAG_TEXT, &options->token, "TOKEN",
         "The token itself, for anyone to see who may list processes."},
        {"", FLAG_TEXT, &options->body, "FILE", "The body of a request; -: standard input."},
        {"body", FLAG_TEXT, &options->body, "FILE", "The same."},
        {"prompt", FLAG_TEXT, &options->prompt, "TEXT", "Or what a user says in one."},
        {"id", FLAG_TEXT, &options->id, "REQUEST-ID",
         "Or where that request went: its x-request-id, if the router still keeps it."},
        {"model", FLAG_TEXT, &options->model, "NAME", "With --prompt: for which model."},
        {"path", FLAG_TEXT, &options->path, "PATH",
         "Where it would be sent; /v1/chat/completions."},
        {"json", FLAG_SWITCH, &options->as_json, "", "The document as it is, instead of tables."},
        {"timeout", FLAG_DURATION, &options->timeout_s, "TIME", "For the answer; 10s."},
        {"ca", FLAG_TEXT, &options->ca, "FILE", "Who vouches for a router with https; PEM."},
        {"insecure", FLAG_SWITCH, &options->insecure, "", "Nobody has to vouch for it."},
    };
    return flags_read("explain", flags, ARRAY_COUNT(flags), word_count, words);
}

static bool say(const char *what, const char *why)
{
    fprintf(stderr, "warmpath explain: %s: %s\n", what, why);
    return false;
}

static bool is_text(const char *word)
{
    for (; *word != '\0'; word++) {
        if (*word <= ' ' || *word > '~') {
            return false;
        }
    }
    return true;
}

static bool is_good(struct command *command)
{
    const struct options *options = &command->options;

    if (options->admin == NULL) {
        return say("--admin", "say where the router's admin API is");
    }
    const char *wrong = drive_endpoint_parse(options->admin, &command->endpoint);
    if (wrong != NULL) {
        return say("--admin", wrong);
    }
    int given = (options->body != NULL) + (options->prompt != NULL) + (options->id != NULL);
    if (given != 1) {
        return say("--body", "give either this or --prompt or --id");
    }
    if (options->id != NULL && (options->id[0] == '\0' || strlen(options->id) > id_size_max)) {
        return say("--id", "is from 1 to 1024 characters");
    }
    if (options->model != NULL && options->prompt == NULL) {
        return say("--model", "goes with --prompt; a body names its own");
    }
    if (options->token != NULL && options->token_file != NULL) {
        return say("--token", "goes without --token-file");
    }
    if (options->path[0] != '/' || strlen(options->path) >= path_size_max ||
        !is_text(options->path)) {
        return say("--path", "begins with / and has no blanks");
    }
    if (options->timeout_s < 0.001 || options->timeout_s > 3600) {
        return say("--timeout", "is from 1ms to 1h");
    }
    return true;
}

static bool read_file(const char *path, void *space, size_t capacity, size_t *size)
{
    const char *name = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    enum status status = config_file_read(name, space, capacity, size);
    return status == STATUS_OK ||
           say(path, status == STATUS_IO ? strerrordesc_np(errno) : status_text(status));
}

static bool read_token(struct command *command)
{
    char token[token_size_max + 2] = "";
    size_t size = 0;

    if (command->options.token_file != NULL) {
        if (!read_file(command->options.token_file, token, sizeof(token) - 1, &size)) {
            return false;
        }
        token[size] = '\0';
        token[strcspn(token, "\r\n")] = '\0';
    } else if (command->options.token != NULL) {
        snprintf(token, sizeof(token), "%s", command->options.token);
    }
    if (strlen(token) > token_size_max || !is_text(token)) {
        return say("the token", "is at most 4096 printable characters without blanks");
    }
    if (token[0] != '\0') {
        snprintf(command->authorization, sizeof(command->authorization), "Bearer %s", token);
    }
    return true;
}

// What a client would send who has but one thing to say.
static bool write_body(const struct options *options, struct text *body)
{
    bool is_chat = strstr(options->path, "chat") != NULL;

    text_add_str(body, "{");
    if (options->model != NULL) {
        text_add_str(body, "\"model\":");
        text_add_json(body, slice_str(options->model));
        text_add_str(body, ",");
    }
    text_add_str(body, is_chat ? "\"messages\":[{\"role\":\"user\",\"content\":" : "\"prompt\":");
    text_add_json(body, slice_str(options->prompt));
    text_add_str(body, is_chat ? "}]}" : "}");
    return !body->overflow || say("--prompt", "is too long");
}

static bool read_body(struct command *command)
{
    const struct options *options = &command->options;

    if (options->id != NULL) {
        return true; // nothing is posted
    }
    command->body = malloc(body_size_max);
    if (command->body == NULL) {
        return say("--body", "memory is short");
    }
    if (options->body != NULL) {
        return read_file(options->body, command->body, body_size_max, &command->body_size) &&
               (command->body_size > 0 || say(options->body, "is empty"));
    }
    struct text body = text_over(command->body, body_size_max);
    bool is_written = write_body(options, &body);
    command->body_size = body.size;
    return is_written;
}

// What the router says against it, if it says so in its way.
static void say_refusal(uint16_t status, struct slice body)
{
    const char *names[] = {"error", "message"};
    struct json_value error = {0};
    struct json_value message = {0};

    if (json_find(body, &names[0], 1, &error) == STATUS_OK && error.kind == JSON_OBJECT &&
        json_find(error.raw, &names[1], 1, &message) == STATUS_OK && message.kind == JSON_STRING) {
        fprintf(stderr, "warmpath explain: the router answers %u: %.*s\n", status,
                (int)message.raw.size, (const char *)message.raw.bytes);
    } else {
        fprintf(stderr, "warmpath explain: the router answers %u\n", status);
    }
}

static bool show(const struct command *command, struct slice answer)
{
    struct explain_document document;
    enum status status = explain_document_read(answer, &document);

    if (status != STATUS_OK) {
        return say("the answer",
                   status == STATUS_MALFORMED ? "is no explanation" : status_text(status));
    }
    if (command->options.as_json) {
        printf("%.*s\n", (int)answer.size, (const char *)answer.bytes);
    } else {
        explain_table_write(&document, stdout);
    }
    explain_document_free(&document);
    return (fflush(stdout) == 0 && !ferror(stdout)) || say("standard output", "cannot be written");
}

static void answered(void *owner, const struct fetch_result *result)
{
    struct command *command = owner;

    command->is_done = true;
    if (result->status == 0) {
        say(command->options.admin, result->why);
    } else if (result->status != 200) {
        say_refusal(result->status, result->body);
    } else if (show(command, result->body)) {
        command->code = CLI_OK;
    }
}

static bool set_up_tls(struct command *command)
{
    char error[tls_error_size];
    struct tls_client_options options = {.ca = command->options.ca,
                                         .verify = !command->options.insecure};
    return !command->endpoint.tls ||
           tls_client_create(&options, &command->tls, error) == STATUS_OK || say("TLS", error);
}

// The id with all that could mean something else as %XX.
static void write_target(struct command *command)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    const struct options *options = &command->options;
    struct text target = text_over(command->target, sizeof(command->target) - 1);

    text_add_str(&target, command->endpoint.base);
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

static bool ask(struct command *command)
{
    struct drive_endpoint *endpoint = &command->endpoint;
    char error[drive_error_size];

    if (loop_create(&command->loop) != STATUS_OK) {
        return say("start", "memory or descriptors are short");
    }
    if (!drive_endpoint_resolve(endpoint, command->loop, error)) {
        return say("--admin", error);
    }
    write_target(command);
    // fetch.h asks backends, so this is one for a moment.
    const struct backend backend = {
        .host = endpoint->host,
        .authority = endpoint->authority,
        .authorization = command->authorization[0] != '\0' ? command->authorization : NULL,
        .port = endpoint->port,
        .tls = endpoint->tls,
        .address = endpoint->addresses[0],
    };
    struct fetch *fetch = fetch_start(&(struct fetch_options){
        .loop = command->loop,
        .backend = &backend,
        .tls = command->tls,
        .path = command->target,
        .body = slice_of(command->body, command->body_size),
        .timeout_ms = (uint32_t)(command->options.timeout_s * 1000),
        .done = answered,
        .owner = command,
    });
    if (fetch == NULL) {
        return say("start", "memory or descriptors are short");
    }
    while (!command->is_done) {
        loop_turn(command->loop, turn_ms);
    }
    loop_turn(command->loop, 0); // recycles what was closed
    return true;
}

int cli_explain(int word_count, char **words)
{
    static struct command command; // the program's one; too large for the stack

    command.options = (struct options){.path = "/v1/chat/completions", .timeout_s = 10};
    enum flags_verdict verdict = read_flags(&command.options, word_count, words);
    if (verdict != FLAGS_GOOD) {
        return verdict == FLAGS_HELPED ? CLI_OK : CLI_USAGE;
    }
    if (!is_good(&command)) {
        return CLI_USAGE;
    }
    command.code = CLI_FAILED;
    if (read_token(&command) && read_body(&command) && set_up_tls(&command)) {
        ask(&command);
    }
    loop_destroy(&command.loop);
    tls_context_destroy(&command.tls);
    explicit_bzero(command.authorization, sizeof(command.authorization));
    free(command.body);
    return command.code;
}
