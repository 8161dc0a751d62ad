// SPDX-License-Identifier: Apache-2.0

#include "cli/admin_client.h"

#include "base/base.h"
#include "cli/top/top_document.h"
#include "config/option/command.h"
#include "json/json.h"
#include "net/tls.h"

#include <stdio.h>

bool admin_client_check(struct admin_client *client, const char *command,
                        const struct admin_client_options *options)
{
    *client = (struct admin_client){.command = command, .options = options};
    if (options->url == NULL) {
        return command_fail(client->command, "--admin", "say where the router's admin API is");
    }
    const char *wrong = drive_endpoint_parse(options->url, &client->endpoint);
    if (wrong != NULL) {
        return command_fail(client->command, "--admin", wrong);
    }
    if (options->token != NULL && options->token_file != NULL) {
        return command_fail(client->command, "--token", "goes without --token-file");
    }
    return true;
}

static bool admin_client_read_token(struct admin_client *client)
{
    char token[config_secret_size_max + 2] = "";

    if (client->options->token_file != NULL) {
        size_t size = 0;
        if (!command_read_file(client->command, client->options->token_file, token,
                               sizeof(token) - 1, &size)) {
            return false;
        }
        token[size] = '\0';
        token[strcspn(token, "\r\n")] = '\0';
    } else if (client->options->token != NULL) {
        snprintf(token, sizeof(token), "%s", client->options->token);
    }
    if (token[0] != '\0' && !config_secret_is_sound(slice_str(token))) {
        return command_fail(client->command, "the token",
                            "is at most 4096 printable characters without blanks");
    }
    if (token[0] != '\0') {
        snprintf(client->authorization, sizeof(client->authorization), "Bearer %s", token);
    }
    explicit_bzero(token, sizeof(token));
    return true;
}

bool admin_client_open(struct admin_client *client, struct loop *loop)
{
    char tls_error[tls_error_size];
    char error[drive_error_size];
    struct tls_client_options options = {.ca = client->options->ca,
                                         .verify = !client->options->insecure};

    client->loop = loop;
    if (!admin_client_read_token(client)) {
        return false;
    }
    if (client->endpoint.tls && tls_client_create(&options, &client->tls, tls_error) != STATUS_OK) {
        return command_fail(client->command, "TLS", tls_error);
    }
    return drive_endpoint_resolve(&client->endpoint, loop, error) ||
           command_fail(client->command, "--admin", error);
}

void admin_client_close(struct admin_client *client)
{
    tls_context_destroy(&client->tls);
    explicit_bzero(client->authorization, sizeof(client->authorization));
}

struct fetch *admin_client_ask(const struct admin_client *client, const char *path,
                               struct slice body, size_t response_size_max, fetch_done_fn *done,
                               void *owner)
{
    ASSERT(strlen(path) < admin_path_size_max);
    return drive_endpoint_fetch(
        &client->endpoint, client->address, client->authorization,
        (struct fetch_options){.loop = client->loop,
                               .tls = client->tls,
                               .path = path,
                               .body = body,
                               .timeout_ms = (uint32_t)(client->options->timeout * 1000),
                               .response_size_max = response_size_max,
                               .done = done,
                               .owner = owner});
}

void admin_client_turn(struct admin_client *client)
{
    client->address = (client->address + 1) % client->endpoint.address_count;
}

void admin_client_why(const struct fetch_result *result, char out[admin_why_size])
{
    const char *names[] = {"error", "message"};
    struct json_value error = {0};
    struct json_value message = {0};

    if (result->status == 0) {
        snprintf(out, admin_why_size, "%s", result->why);
    } else if (json_find(result->body, &names[0], 1, &error) == STATUS_OK &&
               error.kind == JSON_OBJECT &&
               json_find(error.raw, &names[1], 1, &message) == STATUS_OK &&
               message.kind == JSON_STRING) {
        int size = snprintf(out, admin_why_size, "the router responds with %u: ", result->status);
        top_text_copy(message.raw, out + size, admin_why_size - (size_t)size);
    } else {
        snprintf(out, admin_why_size, "the router responds with %u", result->status);
    }
}
